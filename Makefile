# Every target creates what it needs in .venv and node_modules; a stamp file says that it is there.
PYTHON ?= python3
NPM ?= npm
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The programs under test are small: more threads than one only get in each other's way.
export OMP_NUM_THREADS ?= 1
# A file's tests share torch, servers and what they have worked out: they stay in one process. PARALLEL= runs them in one.
PARALLEL ?= -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test lint types pytest client vsix dist bench cuda soak docs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo    install into .venv, check and record the examples, apply a fix"
	@echo "make test    install what the tests need and run all of them"
	@echo "make lint    ruff and mypy only"
	@echo "make vsix    build the VS Code extension, one for every platform"
	@echo "make dist    build wheel and sdist, check them and try both in an empty environment"
	@echo "make docs    build the documentation site, with the playground, into .build/site"
	@echo "make bench   measure check, a keystroke, a page, and what recording costs; CORPUS=FOLDER: public repositories, too"
	@echo "make cuda    every check of the recorder on a GPU, as a table; CPU=1: the same programs on the CPU"
	@echo "make soak    hours of hostile and random input, and every file of the environment; CORPUS=FOLDER: others"
	@echo "make clean   remove .venv, node_modules and what was built"

demo: $(VENV)/.torch
	@$(BIN)/python examples/demo.py

# Two at a time, begun in this order: the client waits for an editor more than it computes, so pytest goes on beside it.
# pytest begins after the types and takes longest: its summary comes last, where a person and a CI runner look for it.
test: $(VENV)/.test node_modules/.stamp
	@$(MAKE) --no-print-directory -j2 lint types client pytest

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.test
	$(BIN)/mypy

pytest: $(VENV)/.test
	$(BIN)/python -m pytest $(PARALLEL)

client: node_modules/.stamp $(VENV)/.test
	$(NPM) test
	$(NPM) run test:e2e

vsix: node_modules/.stamp $(VENV)/.installed
	$(NPM) run vsix

dist:
	PYTHON=$(PYTHON) .ci/dist

docs: node_modules/.stamp $(VENV)/.docs
	$(NPM) run playground
	$(BIN)/python -m mkdocs build

bench: $(VENV)/.test
	$(BIN)/python benchmarks/check_speed.py $(if $(CORPUS),--corpus $(CORPUS))
	$(BIN)/python benchmarks/lsp_keystroke.py
	$(BIN)/python benchmarks/lsp_keystroke.py --uncalled
	$(BIN)/python benchmarks/lsp_start.py
	$(BIN)/python benchmarks/report_page.py
	$(BIN)/python benchmarks/record_cost.py --rounds 3 --ways recorder

cuda: $(VENV)/.test
	$(BIN)/python tests/record/cuda.py $(if $(CPU),--cpu)

soak: $(VENV)/.test
	$(BIN)/python -m tests.soak.bombs
	$(BIN)/python -m tests.soak.chance
	$(BIN)/python -m tests.soak.half_typed --trials 2000
	$(BIN)/python -m tests.soak.mutation
	$(BIN)/python -m tests.soak.protocol
	$(BIN)/python -m tests.soak.faults
	$(BIN)/python -m tests.partial
	$(BIN)/python -m tests.soak.sweep $(or $(CORPUS),$(VENV))

clean:
	rm -rf $(VENV) node_modules .build dist bundled *.vsix

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Tapecheck needs Python 3.10 or later: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.torch: $(VENV)/.installed
	$(PIP) --editable '.[torch]'
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/.torch $(VENV)/.docs

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	@touch $@

node_modules/.stamp: package.json package-lock.json
	@command -v $(NPM) >/dev/null || { echo "The VS Code extension needs Node.js 20 or later with npm."; exit 1; }
	$(NPM) ci --no-fund --no-audit
	@touch $@
