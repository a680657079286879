"""Where a Databricks warehouse is and with what credentials: a dbt profile, ~/.databrickscfg, the environment."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import time
import urllib.request
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sqlenrich.core.errors import ConfigError, did_you_mean

_RENEWED_S = 60.0
"""A token is renewed this long before it ends."""


@dataclass(frozen=True, repr=False)
class Settings:
    """What connects to one warehouse."""

    host: str
    """The name, and the port where it is not 443."""
    http_path: str
    token: str = ""
    client_id: str = ""
    client_secret: str = ""
    auth_type: str = ""
    """How to log in without a token and a client secret."""
    catalog: str | None = None
    schema: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """More arguments of the client, as ``connection_parameters`` of a dbt profile."""

    def __repr__(self) -> str:
        return f"Settings({self.host}, {self.http_path})"

    @property
    def hostname(self) -> str:
        """The host without a port, as the client wants it."""
        return self.host.partition(":")[0]

    @property
    def port(self) -> int:
        """The port of HTTPS."""
        return int(self.host.partition(":")[2] or 443)

    @property
    def credential(self) -> str:
        """What to mend where the credentials are refused."""
        if self.token:
            return "token"
        if self.auth_type in FEDERATED:
            return f"the token of the identity provider ({FEDERATED[self.auth_type]}), or its federation policy,"
        return "the login in the browser" if self.auth_type in BROWSER else "client_id or client_secret"

    @property
    def secrets(self) -> list[str]:
        """What no message may hold."""
        given = os.environ.get(FEDERATED["env-oidc"], "") if self.auth_type == "env-oidc" else ""
        return [secret for secret in (self.token, self.client_secret, given) if secret]

    def credentials(self, timeout_s: float) -> dict[str, Any]:
        """Return the client's arguments: the token, a login in the browser, or a provider of tokens for an hour."""
        if self.token:
            return {"access_token": self.token}
        if self.auth_type in BROWSER:
            own = {"oauth_client_id": self.client_id} if self.client_id else {}
            return {"auth_type": "databricks-oauth", **own}
        tokens = _Tokens(self, timeout_s)
        return {"credentials_provider": lambda: tokens.headers}


BROWSER = ("oauth", "databricks-oauth", "external-browser")
"""The kinds of a login in the browser: of dbt, of the client, and of Databricks' tools."""
FEDERATED = {"env-oidc": "DATABRICKS_OIDC_TOKEN", "file-oidc": "DATABRICKS_OIDC_TOKEN_FILEPATH"}
"""The kinds of workload identity federation, and the variable that has the identity provider's token or its file.

https://docs.databricks.com/aws/dev-tools/auth/oauth-federation-exchange, read 2026-11-25.
"""


class _Tokens:
    """Tokens for an hour, of a service principal's secret or in exchange for an identity provider's token.

    https://docs.databricks.com/aws/en/dev-tools/auth/oauth-m2m, read 2026-11-22.
    """

    def __init__(self, settings: Settings, timeout_s: float) -> None:
        self._settings, self._timeout_s = settings, timeout_s
        self._token, self._ends = "", 0.0

    def headers(self) -> dict[str, str]:
        """Return the header of a request, with a token that is valid."""
        if time.monotonic() > self._ends - _RENEWED_S:
            trusted = ssl.create_default_context(cafile=self._settings.options.get("_tls_trusted_ca_file"))
            with urllib.request.urlopen(self._request(), timeout=self._timeout_s, context=trusted) as response:
                found = json.load(response)
            self._token = str(found["access_token"])
            self._ends = time.monotonic() + float(found.get("expires_in", 3600))
        return {"Authorization": f"Bearer {self._token}"}

    def _request(self) -> urllib.request.Request:
        settings, headers = self._settings, {}
        if settings.auth_type in FEDERATED:
            form = {
                "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
                "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
                "subject_token": _identity_token(settings.auth_type),
                **({"client_id": settings.client_id} if settings.client_id else {}),
            }
        else:
            pair = f"{settings.client_id}:{settings.client_secret}".encode()
            form = {"grant_type": "client_credentials"}
            headers = {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        data = urlencode({**form, "scope": "all-apis"}).encode()
        return urllib.request.Request(f"https://{settings.host}/oidc/v1/token", data=data, headers=headers)


def _identity_token(auth_type: str) -> str:
    """Return the identity provider's token, which is read again each time: it ends, and its file is renewed."""
    variable = FEDERATED[auth_type]
    given = os.environ.get(variable, "")
    if auth_type == "env-oidc":
        return given
    try:
        return Path(given).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"databricks: {variable} names {given}, which can't be read: {error.strerror}") from None


def settings_of_fields(fields: Mapping[str, Any]) -> Settings:
    """Read the fields of a dbt-databricks profile. Raises ConfigError for what is missing."""
    more = fields.get("connection_parameters") or {}
    return _settings(
        {name: str(fields[name]).strip() for name in _FIELDS if fields.get(name)},
        "the profile",
        dict(more) if isinstance(more, Mapping) else {},
    )


_FIELDS = ("host", "http_path", "token", "client_id", "client_secret", "auth_type", "catalog", "schema")
_ENVIRONMENT = {
    "host": "DATABRICKS_HOST",
    "token": "DATABRICKS_TOKEN",
    "http_path": "DATABRICKS_HTTP_PATH",
    "client_id": "DATABRICKS_CLIENT_ID",
    "client_secret": "DATABRICKS_CLIENT_SECRET",
    "auth_type": "DATABRICKS_AUTH_TYPE",
    "warehouse_id": "DATABRICKS_WAREHOUSE_ID",
}
"""The variables of Databricks' tools: https://docs.databricks.com/aws/en/dev-tools/auth/env-vars, read 2026-11-22."""


def settings_of_name(name: str | None, catalog: str | None = None, schema: str | None = None) -> Settings:
    """Read a profile of ~/.databrickscfg; None: the environment, over the profile that it names or DEFAULT.

    https://docs.databricks.com/aws/en/dev-tools/auth/config-profiles, read 2026-11-22.
    """
    given = {field: os.environ[variable] for field, variable in _ENVIRONMENT.items() if os.environ.get(variable)}
    wanted = name or os.environ.get("DATABRICKS_CONFIG_PROFILE")
    file = Path(os.environ.get("DATABRICKS_CONFIG_FILE") or "~/.databrickscfg").expanduser()
    if wanted is not None or "host" not in given:
        found = _profile(file, wanted)
        path: dict[str, str] = {
            key: given[key] for key in ("http_path", "warehouse_id") if key in given
        }  # no secret, so no mixture
        given = {**path, **found} if name is not None else {**found, **given}
    if "warehouse_id" in given and "http_path" not in given:
        given["http_path"] = f"/sql/1.0/warehouses/{given['warehouse_id']}"
    place = f"{file} [{wanted or 'DEFAULT'}]" if wanted is not None or "host" not in given else "the environment"
    return _settings({**given, "catalog": catalog or "", "schema": schema or ""}, place, {})


def _profile(file: Path, name: str | None) -> dict[str, str]:
    reader = ConfigParser(interpolation=None, default_section="\0")
    try:
        with file.open(encoding="utf-8") as lines:
            reader.read_file(lines)
    except FileNotFoundError:
        if name is None:
            return {}
        raise ConfigError(
            f"{file} is missing: write it (databricks configure), or set DATABRICKS_CONFIG_FILE"
        ) from None
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}") from None
    except (ConfigParserError, UnicodeDecodeError):  # its message quotes lines, which may hold a secret
        raise ConfigError(f"{file}: this is no file of [PROFILE] sections in UTF-8") from None
    wanted = name or "DEFAULT"
    if wanted in reader:
        return {key: value for key, value in reader[wanted].items() if value}
    if name is None:
        return {}
    there = ", ".join(reader.sections()) or "none"
    raise ConfigError(f"{file}: no profile [{name}]{did_you_mean(name, reader.sections())}; there are: {there}")


def _settings(given: Mapping[str, str], place: str, options: Mapping[str, Any]) -> Settings:
    host = given.get("host", "").removeprefix("https://").rstrip("/")
    if not re.fullmatch(r"[^:/]*(:[0-9]{1,5})?", host):
        raise ConfigError(f"databricks: {place} has a host that is none: write its name alone, as in dbc-1.example.com")
    missing = [] if host else ["host"]
    missing += [] if given.get("http_path") else ["http_path"]
    auth_type = "" if given.get("token") or given.get("client_secret") else given.get("auth_type", "")
    variable = FEDERATED.get(auth_type)
    if variable is not None and not os.environ.get(variable):
        raise ConfigError(f"databricks: {place} has auth_type {auth_type}, and {variable} is not set")
    by_login = variable is not None or auth_type in BROWSER
    if not given.get("token") and not by_login and not (given.get("client_id") and given.get("client_secret")):
        missing.append("token (or client_id and client_secret; or auth_type: external-browser, env-oidc or file-oidc)")
    if missing:
        raise ConfigError(f"databricks: {place} has no {', no '.join(missing)}{_HINTS.get(missing[0], '')}")
    return Settings(
        host=host,
        http_path=given["http_path"],
        token=given.get("token", ""),
        client_id=given.get("client_id", ""),
        client_secret=given.get("client_secret", ""),
        auth_type=auth_type,
        catalog=given.get("catalog") or None,
        schema=given.get("schema") or None,
        options=options,
    )


_HINTS = {"http_path": ": it is in the warehouse's Connection details; DATABRICKS_HTTP_PATH gives it too"}
