"""Profiles of dbt's profiles.yml: where the file is found, what is rendered, what an error tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqlenrich.core.errors import ConfigError
from sqlenrich.runner.place import open_connection
from sqlenrich.store.connections.profiles import read_profile

PROFILES = """
config: {send_anonymous_usage_stats: false}
analytics:
  target: "{{ env_var('STAGE', 'dev') }}"
  outputs:
    dev: {type: databricks, host: dbc.example, token: "{{ env_var('DBT_ENV_SECRET_TOKEN') }}"}
    prod:
      type: snowflake
      account: "{{ env_var('REGION') }}-{{ env_var('ACCOUNT', 'acme') }}"
      password: hunter2
      threads: "{{ env_var('THREADS', '4') | as_number }}"
      keep_alive: "{{ env_var('KEEP', 'True') | as_bool }}"
      retries: "{{ env_var('RETRIES', 3) }}"
      port: "{{ '443' | as_native }}"
      role: "{{ '007' | as_text }}"
      number_as_text: "{{ env_var('THREADS', '4') }}"
      insecure: no
      keyfile_json: {project_id: p, private_key: "-----BEGIN {{ env_var('KEY', 'hunter3') }}"}
    broken: {type: bigquery, project: "{{ env_var('X' }}hunter2"}
    undefined: {type: bigquery, project: "{{ hunter2 }}"}
    unsafe: {type: bigquery, project: "{{ ''.__class__.__mro__ }}"}
    wordy: {type: snowflake, threads: "{{ env_var('THREADS', 'hunter2') | as_number }}"}
    undecided: {type: snowflake, keep: "{{ 'hunter2' | as_bool }}"}
    untyped: {host: dbc.example}
empty: {target: dev}
plain: {outputs: {default: {type: bigquery, project: p}}}
"""
SECRETS = ("hunter2", "hunter3", "sesame")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home and a working directory of one's own, and no variable of dbt's."""
    for folder in ("home/.dbt", "work"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    for name in ("DBT_PROFILES_DIR", "STAGE", "REGION", "ACCOUNT", "THREADS", "KEEP", "RETRIES", "KEY", "X"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DBT_ENV_SECRET_TOKEN", "sesame")


def one(kind: str) -> str:
    """A file with one profile, whose type says which file it is."""
    return f"analytics: {{target: dev, outputs: {{dev: {{type: {kind}}}}}}}"


@pytest.mark.parametrize(
    ("files", "start", "profiles_dir", "expected"),
    [
        (["home/.dbt"], None, None, "home/.dbt"),
        (["home/.dbt", "work"], None, None, "work"),
        (["home/.dbt", "work"], "other", None, "home/.dbt"),
        (["home/.dbt", "other"], "other", None, "other"),
        (["home/.dbt", "project"], "project/models/a", None, "project"),
        (["home/.dbt", "work", "elsewhere"], None, "elsewhere", "elsewhere"),
    ],
)
def test_the_file_is_found_as_dbt_does(
    files: list[str],
    start: str | None,
    profiles_dir: str | None,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "project" / "models" / "a").mkdir(parents=True)
    (tmp_path / "project" / "dbt_project.yml").write_text("name: p")
    for folder in files:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "profiles.yml").write_text(one(folder))
    if profiles_dir is not None:
        monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / profiles_dir))
    assert read_profile("analytics", None if start is None else tmp_path / start)["type"] == expected


@pytest.mark.parametrize(("files", "expected"), [(["prompts", "work"], "prompts"), (["work"], "work")])
def test_a_connection_takes_the_file_beside_the_prompt_or_in_the_working_directory(
    files: list[str], expected: str, tmp_path: Path
) -> None:
    (tmp_path / "prompts").mkdir()
    for folder in files:
        (tmp_path / folder).mkdir(exist_ok=True)
        output = {"type": "snowflake", "account": "a", "user": "u", "schema": folder}
        profile = {"analytics": {"target": "dev", "outputs": {"dev": output}}}
        (tmp_path / folder / "profiles.yml").write_text(json.dumps(profile))
    _, schema = open_connection("snowflake", {"profile": "analytics"}, tmp_path / "prompts" / "tickets.prompt")
    assert schema == expected


PROD = {
    "type": "snowflake",
    "account": "eu-acme",
    "password": "hunter2",
    "threads": 4,
    "keep_alive": True,
    "retries": 3,
    "port": 443,
    "role": "007",
    "number_as_text": "4",
    "insecure": False,
    "keyfile_json": {"project_id": "p", "private_key": "-----BEGIN hunter3"},
}


@pytest.mark.parametrize(
    ("name", "variables", "expected"),
    [
        ("analytics", {}, {"type": "databricks", "host": "dbc.example", "token": "sesame"}),
        ("analytics:dev", {"STAGE": "prod"}, {"type": "databricks", "host": "dbc.example", "token": "sesame"}),
        ("analytics", {"STAGE": "prod", "REGION": "eu"}, PROD),
        ("analytics:prod", {"REGION": "us", "ACCOUNT": "b", "THREADS": "8"}, {
            **PROD, "account": "us-b", "threads": 8, "number_as_text": "8",
        }),
        ("analytics:prod", {"REGION": "eu", "KEEP": "false", "RETRIES": "5"}, {
            **PROD, "keep_alive": False, "retries": "5",
        }),
        ("plain", {}, {"type": "bigquery", "project": "p"}),
    ],
)  # fmt: skip
def test_fields_are_rendered_as_dbt_does(
    name: str, variables: dict[str, str], expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work" / "profiles.yml").write_text(PROFILES)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    found = read_profile(name)
    assert dict(found) == expected
    assert {key: type(value) for key, value in found.items() if key != "keyfile_json"} == {
        key: type(value) for key, value in expected.items() if key != "keyfile_json"
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("analytcs", "no profile analytcs (analytics?); there are: analytics, empty, plain"),
        ("analytics:prd", "analytics has no target prd (prod?); there are: dev, prod, broken, undefined, unsafe"),
        ("empty", "empty has no outputs"),
        ("plain:prod", "plain has no target prod; there are: default"),
        ("analytics:prod", "analytics.prod.account: the environment variable REGION is not set"),
        ("analytics:broken", "analytics.broken.project: this template can't be rendered: write {{ env_var("),
        ("analytics:undefined", "analytics.undefined.project: this template can't be rendered"),
        ("analytics:unsafe", "analytics.unsafe.project: this template can't be rendered"),
        ("analytics:wordy", "analytics.wordy.threads: the value can't be read as a number"),
        ("analytics:undecided", "analytics.undecided.keep: the value can't be read as a boolean"),
        ("analytics:untyped", "analytics.untyped has no type: write databricks, snowflake or bigquery"),
        ("config", "no profile config"),
    ],
)
def test_an_error_is_one_line_without_a_secret(name: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "work" / "profiles.yml").write_text(PROFILES)
    with pytest.raises(ConfigError) as caught:
        read_profile(name)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'work' / 'profiles.yml'}: ")
    assert expected in message
    assert "\n" not in message
    assert not [secret for secret in SECRETS if secret in message]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [hunter2\n", ":2: this is not valid YAML"),
        ("a: 1\na: hunter2\n", ":2: this is not valid YAML"),
        ("hunter2\n", ": there is no profile in it"),
        ("", ": there is no profile in it"),
        ("a: \udcff", ": this is not valid YAML in UTF-8"),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_its_line(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "work" / "profiles.yml"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        read_profile("a")
    assert str(caught.value).startswith(f"{file}{expected}")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("profiles_dir", [None, "elsewhere"])
def test_a_missing_file_tells_where_it_was_looked_for(
    profiles_dir: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if profiles_dir is not None:
        monkeypatch.setenv("DBT_PROFILES_DIR", str(tmp_path / profiles_dir))
    looked = [tmp_path / profiles_dir] if profiles_dir else [tmp_path / "work", tmp_path / "home" / ".dbt"]
    with pytest.raises(ConfigError) as caught:
        read_profile("analytics")
    expected = f"no profiles.yml in {', '.join(map(str, looked))}: write one, or set DBT_PROFILES_DIR to its folder"
    assert str(caught.value) == expected


def test_a_repr_has_names_alone_and_a_driver_gets_the_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGION", "eu")
    (tmp_path / "work" / "profiles.yml").write_text(PROFILES)
    found = read_profile("analytics:prod")
    for text in (repr(found), str(found), f"{found}", repr(found["keyfile_json"]), repr([found]), repr({"a": found})):
        assert not [secret for secret in SECRETS if secret in text]
    assert "password" in repr(found)
    assert json.loads(json.dumps(found["keyfile_json"])) == PROD["keyfile_json"]
