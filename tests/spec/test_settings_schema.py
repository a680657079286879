"""The schema of sqlenrich.toml accepts what is read, and refuses what is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import jsonschema
import pytest

from sqlenrich.core.errors import ConfigError
from sqlenrich.spec.settings import read_config
from sqlenrich.spec.settings_schema import settings_schema

ENDPOINT = '[endpoints.a]\nurl = "http://127.0.0.1:8000/v1"\n'
READ = (
    "",
    ENDPOINT,
    f'{ENDPOINT}rpm = 600\ntimeout = 2.5\nprobe = false\ndialect = "vllm"\nheaders = {{x-team = "a"}}\n',
    '[endpoints.a]\nurl = ["http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1"]\n',
    '[models.small]\nsnowflake = "llama3.3-70b"\nendpoint = {model = "qwen3", temperature = 0}\n',
    '[targets.prod]\nengine = "snowflake"\nschema = "ENRICHED"\nprofile = "warehouse"\n',
    '[targets.own]\nengine = "spark"\nmaster = "local[2]"\nconf = {"spark.executor.memory" = "4g"}\ndesk_port = 7000\n',
    '[facts.databricks]\ncall_error_1 = "errorMessage"\n"response 1" = "result"\n',
)
REFUSED = (
    'price = "prices.toml"\n',
    "prices = 3\n",
    "[endpoints.a]\nrpm = 600\n",
    f'{ENDPOINT}rpm = "many"\n',
    f"{ENDPOINT}rpm = 0\n",
    f'{ENDPOINT}api = "openia"\n',
    f"{ENDPOINT}retries = 3\n",
    '[models.small]\nsnowflak = "llama3.3-70b"\n',
    '[models.small]\nsnowflake = {name = "x"}\n',
    '[targets.prod]\nschema = "ENRICHED"\n',
    '[targets.prod]\nengine = "snowflak"\n',
    '[targets.prod]\nengine = "snowflake"\nschema = 3\n',
    '[targets.own]\nengine = "spark"\ndesk_port = 70000\n',
    '[facts.databricks]\ncall_eror_1 = "errorMessage"\n',
    '[facts.duckdb]\nresponse_1 = "result"\n',
)


@pytest.mark.parametrize(("text", "accepted"), [*((one, True) for one in READ), *((one, False) for one in REFUSED)])
def test_the_schema_says_what_the_reader_says(tmp_path: Path, text: str, accepted: bool) -> None:
    jsonschema.Draft7Validator.check_schema(settings_schema())
    path = tmp_path / "sqlenrich.toml"
    path.write_text(text)
    try:
        read_config(path)
        read = True
    except ConfigError:
        read = False
    assert read is accepted
    assert jsonschema.Draft7Validator(settings_schema()).is_valid(tomllib.loads(text)) is accepted
