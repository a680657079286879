# make demo    sets up and enriches a sample table with the mock model
# make test    sets up and runs the tests
# make check   style, types and tests: what a change must pass
# make golden  rewrites the golden SQL; review the diff

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?= -n 2

.PHONY: demo test check lint golden clean

demo: $(VENV)/.demo
	@mkdir -p .demo
	$(BIN)/sqlenrich run support_ticket --input templates/support_ticket/sample.csv --output .demo/support_ticket.duckdb --mock
	$(BIN)/python -c "import duckdb; duckdb.connect('.demo/support_ticket.duckdb').sql('SELECT id, intent, urgency, needs_human, summary FROM support_ticket ORDER BY id LIMIT 5').show()"

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(if $(SQLENRICH_NO_SKIPS),-p tests.noskip) $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

golden: $(VENV)/.dev
	$(BIN)/python -m pytest tests/renderer/test_golden.py --update-golden

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) .demo .cache build dist
