"""Settings: the nearest sqlenrich.toml, then the environment."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import sqlenrich as se
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.spec.settings import Config, ModelAlias, Target, find_config, read_config

FULL = """
[models.default]
endpoint = "qwen"
snowflake = "llama"
bigquery = {model = "analytics.ai.gemini", temperature = "", max_tokens = 9}

[models.small]
databricks = "tiny"

[endpoints.local]
url = "http://127.0.0.1:8000/v1/"
api_key_env = "VLLM_API_KEY"
concurrency = 256
timeout = 5
extra_body = {top_k = 1}

[targets.prod]
engine = "snowflake"
profile = "analytics:prod"
database = "ANALYTICS"
schema = "ENRICHED"
responses = "ANALYTICS.LLM.{name}_responses"
"""


def config(tmp_path: Path, text: str) -> Config:
    """The settings of a file with this text."""
    file = tmp_path / "sqlenrich.toml"
    file.write_text(text, encoding="utf-8")
    return read_config(file)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "VLLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "engine", "model"),
    [
        pytest.param("default", "endpoint", ModelAlias("qwen"), id="alias"),
        pytest.param(
            "default", "bigquery", ModelAlias("analytics.ai.gemini", {"temperature": None, "max_tokens": 9}), id="table"
        ),
        pytest.param("default", "spark", None, id="not set for the engine"),
        pytest.param("small", "databricks", ModelAlias("tiny"), id="another alias"),
        pytest.param("small", "snowflake", None, id="alias of other engines"),
        pytest.param("claude-4", "snowflake", ModelAlias("claude-4"), id="a model's own name"),
    ],
)
def test_models(tmp_path: Path, name: str, engine: str, model: ModelAlias | None) -> None:
    assert config(tmp_path, FULL).model(name, engine) == model


def test_no_file_has_no_default_model() -> None:
    assert Config().model("default", "snowflake") is None


def test_several_urls_and_limits(tmp_path: Path) -> None:
    written = """[endpoints.a]
url = ["http://one/v1/", "http://two/v1"]
rpm = 600
tpm = 60000
input_tpm = 50000
output_tpm = 10000
prefix_order = false
"""
    assert config(tmp_path, written).endpoint("a") == Endpoint(
        "http://one/v1",
        others=("http://two/v1",),
        rpm=600,
        tpm=60_000,
        input_tpm=50_000,
        output_tpm=10_000,
        prefix_order=False,
        origin="endpoints.a",
    )


def test_endpoint_and_target(tmp_path: Path) -> None:
    loaded = config(tmp_path, FULL)
    local = Endpoint(
        "http://127.0.0.1:8000/v1",
        "VLLM_API_KEY",
        concurrency=256,
        timeout=5,
        extra_body={"top_k": 1},
        origin="endpoints.local",
    )
    assert loaded.endpoint(None) == loaded.endpoint("local") == local
    assert loaded.target("prod") == Target(
        "prod", "snowflake", "ANALYTICS", "ENRICHED", "ANALYTICS.LLM.{name}_responses", "analytics:prod"
    )
    names = {"enriched": "{}", "responses": "{}_responses"}
    assert loaded.target("prod").relations(names, "x") == {
        "enriched": "ANALYTICS.ENRICHED.x",
        "responses": "ANALYTICS.LLM.x_responses",
    }
    assert Target("t", "duckdb").relations(names, "x") == {"enriched": "x", "responses": "x_responses"}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param("[model.default]", ['unknown key "model" (models?) @ model'], id="table"),
        pytest.param("models = 3", ["[models.NAME] must be a table of settings @ models"], id="no table"),
        pytest.param('[models]\nendpoint = "x"', ["[models.NAME] must be a table of settings @ models"], id="no alias"),
        pytest.param(
            '[models.a]\nsnowflak = "x"',
            [
                'unknown key "snowflak" (snowflake?) @ models.a.snowflak',
            ],
            id="engine",
        ),
        pytest.param(
            "[models.a]\nspark = 3", ['a model must be a name or {model = "name", ...} @ models.a.spark'], id="model"
        ),
        pytest.param(
            "[models.a]\nspark = {temperature = 1}",
            ['a model must be a name or {model = "name", ...} @ models.a.spark'],
            id="no name",
        ),
        pytest.param("[endpoints.a]", ["url is missing @ endpoints.a"], id="url"),
        pytest.param(
            "[endpoints.a]\nurl = 3",
            ["url must be a text in quotes, or a list of them @ endpoints.a.url"],
            id="url's type",
        ),
        pytest.param(
            '[endpoints.a]\nurl = "http://x"\nconcurrency = true\ntimeout = "3"',
            [
                "concurrency must be a whole number, not True @ endpoints.a.concurrency",
                "timeout must be a number, not '3' @ endpoints.a.timeout",
            ],
            id="types",
        ),
        pytest.param(
            '[endpoints.a]\nurl = ["x", 3]\nrpm = 0\ntpm = 2.5\ntimeout = 0',
            [
                "rpm must be above 0, not 0 @ endpoints.a.rpm",
                "tpm must be a whole number, not 2.5 @ endpoints.a.tpm",
                "timeout must be above 0, not 0 @ endpoints.a.timeout",
                "url must be one or more texts in quotes @ endpoints.a.url",
            ],
            id="limits",
        ),
        pytest.param(
            "[endpoints.a]\nurl = []\nprefix_order = 1",
            [
                "prefix_order must be true or false, not 1 @ endpoints.a.prefix_order",
                "url must be one or more texts in quotes @ endpoints.a.url",
            ],
            id="no url",
        ),
        pytest.param(
            '[endpoints.a]\nurl = ["http://a/v1", "a:8000/v1", "ftp://a", "http://[a", "http://a/v1/"]',
            [
                *(
                    f"url {number} of 5 has no http:// or no host: write it as http://host:port/v1 @ endpoints.a.url"
                    for number in (2, 3)
                ),
                "url 4 of 5 can't be read: write it as http://host:port/v1 @ endpoints.a.url",
                "url 5 of 5 is a repetition: name each server once @ endpoints.a.url",
            ],
            id="bad urls",
        ),
        pytest.param(
            '[endpoints.a]\nurl = "u:pw-secret@a/v1"',
            ["url has no http:// or no host: write it as http://host:port/v1 @ endpoints.a.url"],
            id="a password is not shown",
        ),
        pytest.param(
            '[endpoints.a]\nurl = "http://x"\napi_key = "k"',
            ['unknown key "api_key" (api_key_env?) @ endpoints.a.api_key'],
            id="key itself",
        ),
        pytest.param(
            "[targets.a]",
            ["engine must be one of databricks, snowflake, bigquery, spark, duckdb, not None @ targets.a"],
            id="no engine",
        ),
        pytest.param(
            '[facts.snowflake]\nrespons_1 = "a"\ncall_error_1 = 3\nfinish_by_error = "x"\n[facts.duckdb]\n[facts.snow]',
            [
                'unknown fact "respons_1" (response_1?) @ facts.snowflake.respons_1',
                'call_error_1 must be a place such as "a.b[0].c" @ facts.snowflake.call_error_1',
                'finish_by_error must be a table of texts, {THEIRS = "length"} @ facts.snowflake.finish_by_error',
                "facts are set for databricks, snowflake, bigquery, spark, not for duckdb @ facts.duckdb",
                "facts are set for databricks, snowflake, bigquery, spark, not for snow @ facts.snow",
            ],
            id="facts",
        ),
        pytest.param(
            '[facts.bigquery]\nresponse_1 = "a\'b"',
            ['response_1 must be a place such as "a.b[0].c" @ facts.bigquery.response_1'],
            id="fact's place",
        ),
        pytest.param(
            '[targets.a]\nengine = "spark"\nschema = 3', ["schema must be a text @ targets.a.schema"], id="schema"
        ),
        pytest.param(
            'x = 1\n[endpoints.a]\nurl = 3\n[targets.b]\nengine = "spak"\nshema = "x"',
            [
                'unknown key "x" @ x',
                "url must be a text in quotes, or a list of them @ endpoints.a.url",
                'unknown key "shema" (schema?) @ targets.b.shema',
                "engine must be one of databricks, snowflake, bigquery, spark, duckdb, not 'spak' @ targets.b",
            ],
            id="all at once",
        ),
    ],
)
def test_problems(tmp_path: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(se.ConfigError) as caught:
        config(tmp_path, text)
    lines = [re.sub("^line [0-9]+: ", "", line) for line in told(caught.value, tmp_path / "sqlenrich.toml")]
    assert sorted(lines) == sorted(problems)


def told(error: Exception, file: Path) -> list[str]:
    """Return the problems of a file, each of which names it."""
    lines = str(error).splitlines()
    assert all(line.startswith(f"{file}: ") for line in lines)
    return [line.removeprefix(f"{file}: ") for line in lines]


def test_each_problem_names_its_line(tmp_path: Path) -> None:
    text = (
        '# endpoints\n[endpoints."a.b"]\n\nurl = """\n[no.table]\nrpm = 5\n"""\nconcurency = 3\n'
        '[targets]\nprod.engine = "spak"\nprod.shema = "x"\n[models.m]\nduckdb = {modl = "x"}\n[x\n'
    )
    with pytest.raises(se.ConfigError) as caught:
        config(tmp_path, text)
    assert told(caught.value, tmp_path / "sqlenrich.toml") == [
        "Expected ']' at the end of a table declaration (at line 14, column 3)"
    ]
    with pytest.raises(se.ConfigError) as caught:
        config(tmp_path, text.removesuffix("[x\n"))
    assert [re.sub(": .*@", "", line) for line in told(caught.value, tmp_path / "sqlenrich.toml")] == [
        "line 4 endpoints.a.b.url",
        "line 8 endpoints.a.b.concurency",
        "line 10 targets.prod",
        "line 11 targets.prod.shema",
        "line 13 models.m.duckdb",
    ]


def test_no_toml(tmp_path: Path) -> None:
    with pytest.raises(se.ConfigError, match=r"sqlenrich\.toml: .*line 1"):
        config(tmp_path, "a = \n")


def test_found_upward(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / "sqlenrich.toml").write_text('[models.default]\nspark = "far"')
    assert find_config(deep / "x.prompt").model("default", "spark") == ModelAlias("far")
    (tmp_path / "a" / "sqlenrich.toml").write_text('[models.default]\nspark = "near"')
    assert find_config(deep / "x.prompt").path == tmp_path / "a" / "sqlenrich.toml"
    assert find_config(deep / "x.prompt").model("default", "spark") == ModelAlias("near")


@pytest.mark.parametrize(
    ("files", "read", "unread"),
    [
        ((), None, None),
        (("prompts/own", "prompts", "work"), "prompts/own", "work"),
        (("prompts", "work"), "prompts", "work"),
        (("prompts",), "prompts", None),
        (("work",), "work", None),
        (("project", "work"), "project", "work"),
        (("",), "", None),
    ],
)
def test_the_file_that_is_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], read: str | None, unread: str | None
) -> None:
    for folder in ("prompts/own", "work/below", "project"):
        (tmp_path / folder).mkdir(parents=True)
    for folder in files:
        (tmp_path / folder / "sqlenrich.toml").write_text("")
    monkeypatch.chdir(tmp_path / "work" / "below")
    found = find_config(tmp_path / "prompts" / "own" / "x.prompt", tmp_path / "project")
    assert found.path == (None if read is None else tmp_path / read / "sqlenrich.toml")
    with pytest.raises(se.ConfigError) as missing:
        found.target("prod")
    told = f"(settings: no sqlenrich.toml in or above {tmp_path}/prompts/own or "
    if read is not None:
        told = f"(settings: {found.path}" + (f"; {tmp_path}/{unread}/sqlenrich.toml is not read)" if unread else ")")
    assert told in str(missing.value)


def test_found_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config(None).path is None
    (tmp_path / "sqlenrich.toml").write_text("")
    assert find_config(None).path == tmp_path / "sqlenrich.toml"


@pytest.mark.parametrize(
    ("environment", "flag", "expected"),
    [
        pytest.param({}, "http://h/v1/", ("http://h/v1", "--endpoint"), id="flag"),
        pytest.param({"OPENAI_BASE_URL": "http://b/v1/"}, None, ("http://b/v1", "OPENAI_BASE_URL"), id="base url"),
        pytest.param({"OPENAI_API_KEY": "k"}, None, ("https://api.openai.com/v1", "OPENAI_API_KEY"), id="key"),
        pytest.param({"OPENAI_BASE_URL": "http://b/v1"}, "http://h", ("http://h", "--endpoint"), id="flag first"),
    ],
)
def test_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], flag: str | None, expected: tuple[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = Config().endpoint(flag)
    assert (found.url, found.origin) == expected
    assert found.resolve_key() == environment.get("OPENAI_API_KEY")


def test_variables_of_a_file_beside_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SET_BEFORE", "outside")
    monkeypatch.setenv("VLLM_API_KEY", "")  # so that it is removed again
    monkeypatch.delenv("VLLM_API_KEY")
    (tmp_path / "sqlenrich.toml").write_text(FULL)
    (tmp_path / ".env").write_text("VLLM_API_KEY=from the file\nSET_BEFORE=inside\n")
    assert find_config(tmp_path / "x.prompt").endpoints["local"].resolve_key() == "from the file"
    assert os.environ["SET_BEFORE"] == "outside"


def test_a_certificate_lies_beside_the_settings(tmp_path: Path) -> None:
    written = '[endpoints.a]\nurl = "https://h/v1"\nclient_cert = "certs/me.pem"\nclient_key = "/etc/me.key"\n'
    found = config(tmp_path, written).endpoints["a"]
    assert (found.client_cert, found.client_key) == (str(tmp_path / "certs/me.pem"), "/etc/me.key")


def test_a_file_s_endpoint_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://b/v1")
    assert config(tmp_path, FULL).endpoint(None).origin == "endpoints.local"


@pytest.mark.parametrize(
    ("text", "flag", "words"),
    [
        pytest.param(
            "",
            None,
            "no model to ask: give --endpoint URL, or write [endpoints.NAME] in sqlenrich.toml "
            "(or set OPENAI_BASE_URL), or use --mock for free invented answers",
            id="none",
        ),
        pytest.param(FULL, "locl", '"locl" is neither a URL nor an endpoint of sqlenrich.toml (local?)', id="typo"),
        pytest.param(
            '[endpoints.a]\nurl = "http://u"\n[endpoints.b]\nurl = "http://v"',
            None,
            "choose one with --endpoint a|b",
            id="several",
        ),
    ],
)
def test_no_endpoint(tmp_path: Path, text: str, flag: str | None, words: str) -> None:
    with pytest.raises(se.ConfigError) as caught:
        config(tmp_path, text).endpoint(flag)
    assert words in str(caught.value)


def test_the_endpoint_named_default_is_taken(tmp_path: Path) -> None:
    both = '[endpoints.a]\nurl = "http://u"\n[endpoints.default]\nurl = "http://v"'
    assert config(tmp_path, both).endpoint(None).url == "http://v"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 'no target "prd"; there are: none; write [targets.prd] in sqlenrich.toml'),
        (FULL, 'no target "prd" (prod?); there are: prod'),
    ],
)
def test_no_target(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(se.ConfigError) as caught:
        config(tmp_path, text).target("prd")
    assert str(caught.value) == f"{words} (settings: {tmp_path / 'sqlenrich.toml'})"


def test_a_key_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "the-secret")
    loaded = config(tmp_path, FULL)
    assert loaded.endpoint("local").resolve_key() == "the-secret"
    assert "the-secret" not in repr(loaded) + repr(loaded.endpoint("local"))
    with pytest.raises(se.ConfigError) as caught:
        config(tmp_path, '[endpoints.a]\nurl = "http://u"\napi_key = "the-secret"\napi_key_env = 3')
    assert "the-secret" not in str(caught.value)
