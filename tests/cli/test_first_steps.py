"""What a newcomer types wrong, or right: each message says what to write instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from tests.support.runs import call, rows, write_csv

SHORT = "output: {label(enum): [a, b]}"


def write(name: str, header: str = "key: [id]", template: str = "{{ body }}") -> None:
    Path(f"{name}.prompt").write_text(f"---\n{header}\n{SHORT}\n---\n{template}\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(Path("in.csv"), [(1, "a", "3.5", "x"), (400, "b", "4", "y")], ("id", "body", "amount", "label"))


RUN = ("run", "p.prompt", "--input", "in.csv", "--output", "out.duckdb", "--mock")
NUMBER = 'where "{0}": {1} is a text, and {0} compares it with a number; write columns: {{{1}: {2}}} in the header'


@pytest.mark.parametrize(
    ("header", "template", "arguments", "status", "words"),
    [
        pytest.param("key: [id]", "{{ body }}", (*RUN, "--where", "id > 300"), 2,
                     NUMBER.format("id > 300", "id", "bigint"), id="a text compared with a number"),
        pytest.param("key: [id]\nwhere: amount <= 3.75", "{{ body }}", RUN, 2,
                     NUMBER.format("amount <= 3.75", "amount", "double"), id="also in the header"),
        pytest.param("key: [id]\ncolumns: {amount: double}", "{{ body }}", (*RUN, "--where", "amount <= 3.75"), 0,
                     "1 row in = 1 enriched", id="the type that the message names, and no other use"),
        pytest.param("key: [id]\nwhere: 'body ='", "{{ body }}", ("check", "p.prompt"), 2,
                     'line 3: where "body =" is no SQL: it is incomplete at "=" @ where', id="incomplete where"),
        pytest.param("key: [id]\ncolumns: {amount: decimal(10,2)}", "{{ amount }}", RUN, 0,
                     "2 rows in = 2 enriched", id="decimal in flow style"),
        pytest.param("key: [id]\ncolumns: {amount: {type: decimal( 9 , 2 ), from: amount}}", "{{ amount }}", RUN, 0,
                     "2 rows in = 2 enriched", id="decimal in a nested flow"),
        pytest.param("max_tokens: 5", "{{ body }}", ("check", "p.prompt"), 2,
                     'line 2: "max_tokens" is no key of the header: write it under params: {max_tokens: ...}',
                     id="a parameter at the top"),
        pytest.param("temperature: 0", "{{ body }}", ("check", "p.prompt"), 2,
                     "write it under params: {temperature: ...}", id="another"),
        pytest.param("max_attempts: 5", "{{ body }}", ("check", "p.prompt"), 2,
                     "write it under retry: {max_attempts: ...}", id="of a retry"),
        pytest.param("key: [id]", "{{ body }}", (*RUN, "--column", "boddy=body"), 2,
                     'p.prompt reads no column "boddy" (body?), which --column names; it reads: body, id', id="column"),
        pytest.param("kee: [id]\nvars: {n: 1}\nparams: 3", "{{ body | uper }}{{ n }}", ("check", "p.prompt"), 2,
                     'unknown key "kee"|params must be a mapping|the filter "uper"', id="a header and its template"),
        pytest.param("columns: {body: strng}", "{{ body | uper }}\n{{ id | lowr }}\n{{ a", ("check", "p.prompt"), 2,
                     'unknown type "strng"|line 7, column 4: ', id="a type and the template's syntax"),
        pytest.param("columns: {body: strng}", "{{ body | lentgh }}\n{{ id | uper }}", ("check", "p.prompt"), 2,
                     'unknown type "strng"|line 6, column 9: the filter "uper"', id="a type and another line"),
        pytest.param("key: [id", "{{ body }", ("check", "p.prompt"), 2,
                     "the header is not YAML|unexpected '}'", id="no YAML, no Jinja"),
        pytest.param("source: {query: SELECT 7 AS body}", "{{ body }}", ("preview", "p.prompt", "--mock"), 0,
                     "1 of 1 asked rows accepted", id="preview of a query"),
        pytest.param("source: {query: SELECT 7 AS body}", "{{ body }}", ("plan", "p.prompt", "--mock"), 0,
                     "calls       1", id="plan of a query"),
        pytest.param("key: [id]", "{{ body }}", ("plan", "p.prompt", "--mock", "--input", "in.csv", "--max-calls", "1"),
                     0, "of 2: --max-calls ends the run", id="plan with a cap"),
        pytest.param("key: [id]", "{{ body }}", ("check", "p.prompt", "--engine", "duckdb"), 0, "duckdb      ok",
                     id="check for an engine"),
        pytest.param("key: [id]", "{{ body }}", ("check", "p.prompt", "--engine", "duckdbb"), 2, "(duckdb?)",
                     id="check for an unknown engine"),
        pytest.param("key: [id]\ncolumns: {amount: bigint}", "{{ body }} {{ amount }}",
                     ("preview", "p.prompt", "--mock", "--input", "in.csv"), 0,
                     'BAD_PROMPT: amount is "3.5", which is no bigint; it is not sent', id="a value of another type"),
    ],
)  # fmt: skip
def test_what_is_written(header: str, template: str, arguments: Sequence[str], status: int, words: str) -> None:
    write("p", header, template)
    result = call(*arguments)
    shown = result.out + result.err
    assert (result.status, [word for word in words.split("|") if word not in shown]) == (status, []), shown
    assert "<class" not in shown


def test_a_value_that_is_not_of_its_type_is_named() -> None:
    """In the quarantine of a run, and after a retry, which does not read the source again."""
    write("p", "key: [id]\ncolumns: {amount: bigint}", "{{ body }} {{ amount }}")
    told = [("1", "BAD_PROMPT", 'amount is "3.5", which is no bigint')]
    for command in (RUN, ("retry", "p.prompt", "--output", "out.duckdb", "--mock")):
        assert call(*command).status == 0
        assert rows(Path("out.duckdb"), "SELECT id, _error, _error_detail FROM p_quarantine") == told
    write("p", "key: [id]\nrequire: [body]\ncolumns: {amount: bigint}", "{{ body }} {{ amount }}")
    write_csv(Path("in.csv"), [(1, "", "x")], ("id", "body", "amount"))
    call(*RUN)
    assert rows(Path("out.duckdb"), "SELECT _error, _error_detail FROM p_quarantine") == [("NO_INPUT", None)]


@pytest.mark.parametrize(
    ("data", "template"),
    [("no.csv", "{{ body }}"), ("in.csv", "{{ bodi }}"), ("in.csv", "{{ amount + 1 }}")],
    ids=["input", "column", "type"],
)
def test_a_run_that_can_not_start_leaves_no_database(data: str, template: str) -> None:
    write("p", template=template)
    assert call("run", "p.prompt", "--input", data, "--output", "out.duckdb", "--mock").status == 2
    assert not Path("out.duckdb").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_rows": "x"}, "max_rows is an integer, not 'x'"),
        ({"max_cost": "x"}, "max_cost is a number, not 'x'"),
        ({"max_calls": True}, "max_calls is an integer, not True"),
        ({"key": "idd"}, 'no column "idd" (id?) in in.csv'),
    ],
)  # fmt: skip
def test_what_python_is_given(options: dict[str, Any], message: str) -> None:
    write("p")
    with pytest.raises(se.ConfigError) as caught:
        se.run(se.load("p.prompt"), input="in.csv", output="o.duckdb", mock=True, **options)
    assert message in str(caught.value)
    assert se.run(se.load("p.prompt"), input="in.csv", output="o.duckdb", mock=True, key="id").enriched == 2


def test_like_faults_have_one_status() -> None:
    """What the caller gave is wrong: 2. Nothing else than the same command again can help: 1."""
    write("p")
    write("q", template="{{ bodi }}")
    Path("late.csv").write_text("id,body\n" + "1,a\n" * 9 + "2\n")
    Path("early.csv").write_text("\nid,body\n")
    run = ("--output", "out.duckdb", "--mock", "--input")
    for prompt, data in (("p", "late.csv"), ("p", "early.csv"), ("p", "no.csv"), ("no", "in.csv"), ("q", "in.csv")):
        assert call("run", f"{prompt}.prompt", *run, data).status == 2


def test_a_template_reads_the_columns_of_a_file() -> None:
    write_csv(Path("tk.csv"), [("T1", "a subject", "a text", "refund")], ("Ticket ID", "SUBJECT", "text", "category"))
    made = call("new", "mine", "--template", "support_ticket", "--from", "tk.csv")
    assert made.out.startswith("wrote mine.prompt; next:")
    enrichment = se.load("mine.prompt")
    named = {name: column.source_name for name, column in enrichment.columns.items()}
    assert (enrichment.key, named) == (("Ticket ID",), {"subject": "SUBJECT", "body": "text"})
    assert call("run", "mine.prompt", "--input", "tk.csv", "--output", "out.duckdb", "--mock").status == 0
    write_csv(Path("tk.csv"), [("a text",)], ("note",))
    made = call("new", "mine", "--template", "support_ticket", "--from", "tk.csv", "--force")
    assert made.out.startswith("tk.csv has no column subject: edit columns and the prompt in mine.prompt\n")
    assert se.load("mine.prompt").key == ()


def test_the_next_command_can_be_copied() -> None:
    write_csv(Path("Q3 letters.csv"), [(1, "a")], ("id", "text"))
    made = call("new", "mine", "--from", "Q3 letters.csv")
    assert made.out.strip().endswith("next: sqlenrich preview mine.prompt --input 'Q3 letters.csv' --prompt-only")


def test_a_new_prompt_does_not_print_the_label() -> None:
    write_csv(Path("d.csv"), [(1, "x", "a", "b")], ("id", "label", "text", "channel"))
    call("new", "mine", "--from", "d.csv")
    assert se.load("mine.prompt").prompt().columns == ("text",)
    assert "# Not in the prompt: label, channel" in Path("mine.prompt").read_text()


def test_a_notebook_without_widgets() -> None:
    """DuckDB then refuses to set its progress bar. It looks for the notebook when it is imported."""
    write("p")
    code = (
        "import sys, types; m = types.ModuleType('IPython')\n"
        "m.get_ipython = lambda: types.SimpleNamespace(config={'IPKernelApp': {}}); sys.modules['IPython'] = m\n"
        "sys.modules['ipywidgets'] = None\n"
        "import duckdb, sqlenrich as se\n"
        "try: duckdb.connect().execute('SET enable_progress_bar = false'); print('no notebook')\n"
        "except duckdb.Error: pass\n"
        "print(se.run(se.load('p.prompt'), input='in.csv', output='out.duckdb', mock=True).enriched)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")
