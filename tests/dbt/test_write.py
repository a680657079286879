"""``sqlenrich dbt``: the files, what it refuses, and ``--check``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

import sqlenrich as se
from sqlenrich.cli.main import cli
from sqlenrich.core.version import __version__
from sqlenrich.dbt.package import package_files
from sqlenrich.dbt.yaml import dump
from tests.support.dbt_projects import CONSUMER, PACKAGE
from tests.support.hostile import TEXTS

HEADER = "description: A label\nversion: 3\nsource: messages\nkey: [id]\ncolumns: {id: string, body: string}\n"
OUTPUT = "output:\n  type: object\n  properties:\n    label: {type: string, enum: [a, b]}\n  required: [label]\n"


def write_prompt(path: Path, header: str = HEADER, body: str = "Label: {{ body }}") -> se.Enrichment:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{header}{OUTPUT}---\n{body}", encoding="utf-8")
    return se.load(path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dbt_project.yml").write_text("name: app\nprofile: app\n", encoding="utf-8")
    return tmp_path


def properties(project: Path, name: str) -> Any:
    return YAML(typ="safe").load(project / "models" / "sqlenrich" / name / f"{name}.yml")


def model(project: Path, name: str, file: str) -> str:
    return (project / "models" / "sqlenrich" / name / f"{file}.sql").read_text(encoding="utf-8")


def test_the_files_of_an_enrichment(project: Path) -> None:
    written = se.write_dbt([write_prompt(project / "prompts" / "t.prompt")], project)
    models = ("t_prompts", "t_pending", "t_responses", "t_checked", "t_quarantine", "t")
    expected = ["macros/sqlenrich/t.sql", *(f"models/sqlenrich/t/{name}.sql" for name in models)]
    assert [*written.files] == [*expected, "models/sqlenrich/t/t.yml"]
    assert written.changed == written.files
    models_sql = expected[1:]
    for place in written.files:
        lines = (project / place).read_text(encoding="utf-8").splitlines()
        first = " ".join(lines[:2])
        # A model's text says nothing that changes without its SQL: dbt would take it for modified.
        made_by = f" {__version__} from prompts/t.prompt, version 3, fingerprint "
        assert f"Made by sqlenrich{' from prompts/t.prompt; ' if place in models_sql else made_by}" in first.replace(
            "    ", ""
        )
        assert "run: sqlenrich dbt prompts/t.prompt" in first
        if place.startswith("models/") and place.endswith(".sql"):
            assert max(map(len, lines)) <= 120
    again = se.write_dbt([se.load(project / "prompts" / "t.prompt")], project / "models")
    assert again.changed == ()


def test_folders_that_the_project_names(project: Path) -> None:
    (project / "dbt_project.yml").write_text("model-paths: [transform]\nmacro-paths: [lib, macros]\n", encoding="utf-8")
    written = se.write_dbt([write_prompt(project / "t.prompt")], project)
    assert written.files[0] == "lib/sqlenrich/t.sql"
    assert written.files[-1] == "transform/sqlenrich/t/t.yml"


@pytest.mark.parametrize(
    ("given", "called"),
    [
        (None, "ref('messages')"),
        ("stg_messages", "ref('stg_messages')"),
        ("raw.messages", "source('raw', 'messages')"),
    ],
)
def test_the_source(project: Path, given: str | None, called: str) -> None:
    se.write_dbt([write_prompt(project / "t.prompt")], project, source=given)
    assert f"t__prompts(sqlenrich.relation({called}))" in model(project, "t", "t_prompts")


def test_options_of_the_last_call_stay(project: Path) -> None:
    enrichment = write_prompt(project / "t.prompt")
    se.write_dbt([enrichment], project, source="stg_messages")
    assert se.write_dbt([enrichment], project, check=True).changed == ()
    assert "ref('stg_messages')" in model(project, "t", "t_prompts")


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ("key: [id]\n", "the source is missing: make a dbt model of it and give --source MODEL"),
        ("source: a.b.c\n", '"a.b.c" is no source for dbt: give --source MODEL, or --source SOURCE.TABLE'),
        ("source: \"my table\"\n", '"my table" is no source for dbt: give --source MODEL'),
        ("source: {query: SELECT 1 AS id}\n", "the source is a query: make a dbt model of it and give --source MODEL"),
        ("source: m\nkey: [id]\nkeep: \"*\"\n",
         't.prompt: keep: "*" needs the columns of the source, and a script, dbt or a source query does not tell them: '
         "write keep: [COLUMN, ...], or name all columns of the source under columns (body, id too)"),
        ("source: m\nkey: [_row]\n", "_row numbers the rows of a file, a table has none: write key"),
    ],
)  # fmt: skip
def test_a_source_that_dbt_can_not_read(project: Path, header: str, error: str) -> None:
    with pytest.raises(se.SpecError) as refused:
        se.write_dbt([write_prompt(project / "t.prompt", header)], project)
    assert error in str(refused.value)
    assert not (project / "models").exists()


def test_there_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(se.ConfigError, match=r"no dbt_project\.yml in .* or above: give --project DIR"):
        se.write_dbt([write_prompt(tmp_path / "t.prompt")], tmp_path)


def test_an_engine_that_refuses_ends_only_its_own_compilation(project: Path) -> None:
    enrichment = write_prompt(project / "t.prompt", "source: messages\nkey: [a$b]\n")
    written = se.write_dbt([enrichment], project)
    (refusal,) = [note for note in written.notes if "not for" in note]
    assert refusal.startswith('t: not for bigquery: the name "a$b" holds')
    macros = (project / "macros" / "sqlenrich" / "t.sql").read_text(encoding="utf-8")
    assert macros.count('sqlenrich.refused("sqlenrich: t: bigquery: the name') == 6
    assert "sqlenrich: t: spark" not in macros


@pytest.mark.parametrize(
    ("columns", "contract", "notes"),
    [
        ("{id: string}", True, ()),
        ("{body: string}", False, ("t: no contract: write the type of id under columns in the prompt file",)),
        ('{id: string, body: string}\nkeep: "*"', True, ()),
        (
            '{id: string, body: string, day: {from: date}}\nkeep: "*"',
            False,
            ("t: no contract: write the type of day under columns in the prompt file",),
        ),
    ],
)
def test_a_contract_needs_the_types_of_the_key(
    project: Path, columns: str, contract: bool, notes: tuple[str, ...]
) -> None:
    written = se.write_dbt([write_prompt(project / "t.prompt", f"source: m\nkey: [id]\ncolumns: {columns}\n")], project)
    assert written.notes == notes
    enforced = [entry["config"]["contract"]["enforced"] for entry in properties(project, "t")["models"]]
    assert enforced == [contract] * 3 + [False] * 3  # also where a project enforces all


def test_columns_are_described(project: Path) -> None:
    se.write_dbt([write_prompt(project / "t.prompt")], project)
    enriched, quarantine, *others = properties(project, "t")["models"]
    columns = {column["name"]: column for column in enriched["columns"]}
    assert [*columns] == ["id", "label", "_request_hash", "_model", "_version", "_fingerprint", "_asked_at"]
    assert columns["label"]["description"] == "One of: a, b."
    assert columns["label"]["data_type"] == (
        "{{ 'VARCHAR' if target.type == 'snowflake' else 'TEXT' if target.type == 'duckdb' else 'STRING' }}"
    )
    assert [column["name"] for column in quarantine["columns"]][:4] == ["id", "_error", "_error_detail", "_repaired"]
    assert [each["name"] for each in others] == ["t_prompts", "t_pending", "t_responses", "t_checked"]
    assert all(each["description"] for each in (enriched, quarantine, *others))


def test_versions(project: Path) -> None:
    first = write_prompt(project / "prompts" / "t.prompt")
    assert "versions" not in properties_of(project, first)
    second = write_prompt(project / "prompts" / "t_v2.prompt", body="Label it: {{ body }}")
    texts = []
    for given in ([first], [second], [first, second]):
        se.write_dbt(given, project)
        texts.append({path: path.read_bytes() for path in sorted(project.rglob("models/**/*.*"))})
    assert texts[0] == texts[1] == texts[2]
    for step, entry in zip(("", "_quarantine"), properties(project, "t")["models"][:2], strict=True):
        assert entry["name"] == f"t{step}"
        assert entry["latest_version"] == 2
        placed = [(each["v"], each["defined_in"], each["config"]["alias"]) for each in entry["versions"]]
        assert placed == [(1, f"t{step}", f"t{step}"), (2, f"t_v2{step}", f"t_v2{step}")]
    assert "ref('t_quarantine', v=2)" in model(project, "t_v2", "t_v2")
    assert [each["name"] for each in properties(project, "t_v2")["models"]] == [
        "t_v2_prompts", "t_v2_pending", "t_v2_responses", "t_v2_checked",
    ]  # fmt: skip
    se.write_dbt([first], project, latest=1)
    assert se.write_dbt([second], project, check=True).changed == ()
    assert {each["latest_version"] for each in properties(project, "t")["models"][:2]} == {1}
    with pytest.raises(se.ConfigError, match="--latest 3: t has no such version; there are: 1, 2"):
        se.write_dbt([first], project, latest=3)


def properties_of(project: Path, enrichment: se.Enrichment) -> Any:
    se.write_dbt([enrichment], project)
    return properties(project, enrichment.name)["models"][0]


def test_two_files_for_version_1(project: Path) -> None:
    write_prompt(project / "t_v1.prompt")
    enrichment = write_prompt(project / "t.prompt")
    with pytest.raises(se.SpecError, match=r"t\.prompt beside it is version 1 already: rename one"):
        se.write_dbt([enrichment], project)


@pytest.mark.parametrize(
    ("first", "second", "case"),
    [
        ("t", "T", r" \(most databases ignore the case of a name\)"),
        ("t", "t_quarantine", ""),
        ("t_Prompts", "t", ""),
        ("t", "t_reviews", ""),
    ],
)
def test_enrichments_that_would_make_each_others_models(project: Path, first: str, second: str, case: str) -> None:
    both = [write_prompt(project / name / f"{name}.prompt") for name in (first, second)]
    with pytest.raises(se.ConfigError, match=f"would both write the table [a-zA-Z_]+{case}; rename one"):
        se.write_dbt(both, project)
    assert not (project / "models").exists()
    se.write_dbt(both[:1], project)
    made = rf"models/sqlenrich/{first} \(delete it if it is not used\) would both write"
    with pytest.raises(se.ConfigError, match=made):
        se.write_dbt(both[1:], project)
    assert not (project / "models" / "sqlenrich" / second).exists()


def test_check_prints_what_differs(project: Path) -> None:
    write_prompt(project / "t.prompt")
    arguments = ["dbt", str(project / "t.prompt"), "--project", str(project)]
    run = CliRunner()
    missing = run.invoke(cli, [*arguments, "--check"], standalone_mode=False)
    assert missing.return_value == 3
    assert not (project / "models").exists()
    wrote = run.invoke(cli, arguments, standalone_mode=False)
    assert wrote.return_value == 0
    assert "wrote 8 of 8 files" in wrote.stderr
    same = run.invoke(cli, [*arguments, "--check"], standalone_mode=False)
    assert (same.return_value, same.stdout) == (0, "")
    write_prompt(project / "t.prompt", body="Which label? {{ body }}")
    differs = run.invoke(cli, [*arguments, "--check"], standalone_mode=False)
    assert differs.return_value == 3
    assert "--- macros/sqlenrich/t.sql" in differs.stdout
    assert "'Which label? '" in differs.stdout
    assert "2 of 8 files differ" in differs.stderr


def test_check_names_what_a_deleted_prompt_left(project: Path) -> None:
    kept, gone = (project / "my prompts" / f"{name}.prompt" for name in ("kept", "gone"))
    se.write_dbt([write_prompt(kept), write_prompt(gone)], project)
    arguments = ["dbt", str(kept), "--project", str(project), "--check"]
    assert CliRunner().invoke(cli, arguments, standalone_mode=False).return_value == 0
    gone.unlink()
    left = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert left.return_value == 3
    ends = (".sql", ".yml", "_checked.sql", "_pending.sql", "_prompts.sql", "_quarantine.sql", "_responses.sql")
    expected = ["macros/sqlenrich/gone.sql", *(f"models/sqlenrich/gone/gone{end}" for end in ends)]
    assert left.stderr.strip() == f"the prompt file is gone, so delete: {', '.join(expected)}"


def test_own_properties_are_merged(project: Path) -> None:
    enrichment = write_prompt(project / "prompts" / "t.prompt")
    own = project / "prompts" / "t.dbt.yml"
    own.write_text(
        "models:\n- name: t\n  config: {tags: [llm], meta: {owner: x}, contract: {enforced: false}}\n"
        "  data_tests: [{unique: {column_name: id}}]\n"
        "  columns: [{name: label, description: Mine, data_tests: [not_null]}]\n"
        "- {name: t_checked, config: {tags: [inner]}}\nexposures: [{name: e}]\n",
        encoding="utf-8",
    )
    for _ in range(2):
        se.write_dbt([enrichment], project)
        found = properties(project, "t")
        models = {model["name"]: model for model in found["models"]}
        enriched, checked = models["t"], models["t_checked"]
        assert enriched["config"] == {
            "docs": {"node_color": "#15803d"},
            "contract": {"enforced": False},
            "tags": ["llm"],
            "meta": {"owner": "x"},
        }
        assert [next(iter(test)) for test in enriched["data_tests"]] == ["sqlenrich.rows_reconcile", "unique"]
        (label,) = [column for column in enriched["columns"] if column["name"] == "label"]
        assert (label["description"], label["data_tests"]) == ("Mine", ["not_null"])
        assert label["data_type"]
        assert (checked["config"]["tags"], found["exposures"]) == (["inner"], [{"name": "e"}])
    for text, error in (
        ("models: [{name: t_cheked}]", '"t_cheked" is none of the models of this prompt file (t_checked?)'),
        ("- a", "write properties as dbt has them, with a list under models"),
        ("models: [", "while parsing"),
    ):
        own.write_text(text, encoding="utf-8")
        with pytest.raises(se.SpecError) as refused:
            se.write_dbt([enrichment], project)
        assert error in str(refused.value)
        assert "t.dbt.yml" in str(refused.value)


def test_engines_that_are_chosen_stay(project: Path) -> None:
    enrichment = write_prompt(project / "t.prompt")
    macros = project / "macros" / "sqlenrich" / "t.sql"
    for engines, expected in (
        ((), 5), (("snowflake", "duckdb"), 2), ((), 2), (("snowflake",), 1), (("all",), 5), ((), 5),
    ):  # fmt: skip
        se.write_dbt([enrichment], project, engines=engines)
        assert macros.read_text(encoding="utf-8").count("if target.type == ") == expected * 6
    with pytest.raises(se.ConfigError, match=r'unknown engine "snowflak" \(snowflake\?\); there are: '):
        se.write_dbt([enrichment], project, engines=["snowflak"])


def test_properties_are_yaml() -> None:
    value = {
        "texts": [*TEXTS.values()],
        "none": None,
        "on": True,
        "n": 0.5,
        "map": {"a b": [], "c": {}, "d": [{"e": 1}]},
    }
    assert YAML(typ="safe", pure=True).load(dump(value)) == value


def test_generated_files_are_current(request: pytest.FixtureRequest) -> None:
    """The package's generated macros, and the files of the consuming project."""
    files = {PACKAGE / place: text for place, text in package_files().items()}
    prompts = [se.load(path) for path in sorted((CONSUMER / "prompts").glob("*.prompt"))]
    if request.config.getoption("--update-golden"):
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        se.write_dbt(prompts, CONSUMER)
    assert {path: path.read_text(encoding="utf-8") for path in files} == files
    assert sorted(files) == sorted([PACKAGE / "macros" / "answers.sql", *PACKAGE.glob("macros/enrichments/*.*")])
    assert se.write_dbt(prompts, CONSUMER, check=True).changed == ()
    assert f'version: "{__version__}"' in (PACKAGE / "dbt_project.yml").read_text(encoding="utf-8")
