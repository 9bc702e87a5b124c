# Everything here works on a machine that has Python 3.11 or newer, make and a package index.
# `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RUN_VENV := .venv-run
RUN_READY := $(RUN_VENV)/.ready
UV_VERSION := 0.13.7
FUZZ_SCALE ?= 1
SEEDS ?= 300
API_EXAMPLES ?= 200

CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "Itinerary needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }

.DEFAULT_GOAL := help
.PHONY: help run test lint types contracts unit fuzz api faults simulate mutants kubernetes spec docs bench screenshots access lock format clean

help:  ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: $(RUN_READY)  ## run the example app on a SQLite file, with its dashboard on http://127.0.0.1:8321 (Ctrl-C ends it)
	$(RUN_VENV)/bin/python -m itinerary up examples/app.py --store sqlite:///example.db

test: lint types contracts unit  ## everything needed to trust the tree

lint: $(READY)  ## style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## mypy --strict
	$(BIN)/mypy

contracts: $(READY)  ## the layers, and the purity of what decides
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/spec.py --check

unit: $(READY)  ## the tests
	$(BIN)/python -m compileall -q src tests
	$(BIN)/pytest -n auto --dist worksteal -q

fuzz: $(READY)  ## the whole cron campaign against the oracles, FUZZ_SCALE times; `make test` runs three tenths of it
	FUZZ_SCALE=$(FUZZ_SCALE) $(BIN)/pytest -n auto --dist worksteal -q tests/oracles

api: $(READY)  ## schemathesis against the document of the HTTP API, for longer: API_EXAMPLES for each route
	API_EXAMPLES=$(API_EXAMPLES) $(BIN)/pytest -n auto -q tests/integration/web/api/test_document.py

faults: $(READY)  ## real faults on the durable stores: 200 kills and 100 races for each of them, and more
	FAULTS_SCALE=10 $(BIN)/pytest -q -rP tests/integration

simulate: $(READY)  ## simulated days with crashes, freezes and lost answers: SEEDS of them, NODES="3 4 5" at once, on all cores
	$(BIN)/python -m tests.simulation --seeds 0..$$(($(SEEDS) - 1)) $(if $(NODES),--nodes $(NODES)) --processes 0

mutants: $(READY)  ## faults put into the store, one at a time: each must be caught within 1,000 seeds
	$(BIN)/python -m tests.simulation.proof --seeds 0..999

kubernetes: $(READY)  ## the tests that need a real cluster: the one of KUBECONFIG, or one that is brought up where that can be done
	tools/kubernetes

spec: $(READY)  ## statements of docs/requirements.md that no test names
	@$(BIN)/python tools/spec.py

docs: $(READY)  ## the documentation as a site, in build/site
	$(BIN)/python -m mkdocs build --strict

bench: $(READY)  ## speed beside the peers, in one run
	$(BIN)/python -m bench cron index

screenshots: $(READY)  ## pictures of the dashboard for the docs; needs Chromium
	$(BIN)/python tools/screenshots.py

access: $(READY)  ## the page of all routes and all callers; needs root and the proxies
	$(BIN)/python tools/access.py

lock: $(READY)  ## renew requirements.lock from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-emit-index-url \
	  --no-header --python-version 3.11 --output-file requirements.lock
	$(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --no-emit-index-url \
	  --no-header --python-version 3.11 --constraint requirements.lock --output-file requirements-run.lock

format: $(READY)  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what the targets made
	find src tests -name __pycache__ -prune -exec rm -rf {} +
	rm -rf build $(VENV) $(RUN_VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# The lock names versions and hashes but no index, so any mirror serves. hatchling comes from it too: no hidden download
# happens while the project itself is installed. What is installed, and for the tests the project itself, is compiled once:
# the tests start programs by the hundred, and where Python may not write bytecode each would compile everything again.
$(READY): requirements.lock pyproject.toml
	@$(CHECK_PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --compile-bytecode --require-hashes --requirement requirements.lock
	VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# What the example app needs and nothing else: no tools, and the sources are used as they are.
$(RUN_READY): requirements-run.lock
	@$(CHECK_PYTHON)
	@echo "Installing the packages that a node needs into $(RUN_VENV). This happens once, and takes about half a minute."
	test -x $(RUN_VENV)/bin/python || $(PYTHON) -m venv $(RUN_VENV)
	$(RUN_VENV)/bin/python -m pip install --disable-pip-version-check --progress-bar on --require-hashes --requirement requirements-run.lock
	@$(RUN_VENV)/bin/python -c 'import pathlib, site; \
	  pathlib.Path(site.getsitepackages()[0], "itinerary.pth").write_text(str(pathlib.Path("src").resolve()))'
	@touch $@
