"""The parameters and the schema of a request, which are written in the words of chat completions, in another API's."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.wire.chat_form import Fields


def renamed_params(
    params: Mapping[str, object], names: Mapping[str, str], refused: Collection[str], api: str
) -> Fields:
    """Return parameters under an API's own names, in their order. Raises ConfigError for those that it lacks."""
    for name in sorted(params):
        if name in refused:
            raise ConfigError(f"{api} have no {name}: remove it from the params of this model")
    return {names.get(name, name): value for name, value in sorted(params.items())}


def json_schema_of(config: RequestConfig) -> Mapping[str, object] | None:
    """Return what the response format says of a schema: its name, itself, and ``strict``; None without one."""
    written = config.response_format
    form = written.get("json_schema") if written is not None else None
    return form if isinstance(form, Mapping) and isinstance(form.get("schema"), Mapping) else None
