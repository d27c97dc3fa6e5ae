# Every target sets up what it needs itself, in .venv, from a bare checkout with only Python and pip.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
INTERLEAVED := tests/engine/test_commit_interleavings.py tests/engine/test_ledger_interleavings.py tests/engine/test_scheduler_interleavings.py tests/engine/queue/test_interleavings.py tests/workloads/machines/test_interleavings.py tests/controllers/pods/test_waking.py
SOAKED := tests/chaos tests/controllers/bench tests/controllers/chaos tests/controllers/crash tests/controllers/machines/test_crashes.py tests/properties/test_controller_book.py $(INTERLEAVED)
ARGS   ?=
# CI runs the tests that fail once more, alone: see tools/pytest_again.py.
PYTEST ?= -m pytest

# Byte code is kept in one folder, also where the environment switches it off: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/pycache

.DEFAULT_GOAL := help
.PHONY: help setup run test test-kube soak kube-tools lint docs reference bench bench-sizing bench-hub bench-fairness bench-controllers bench-scores bench-framework bench-isolation bench-machines bench-migrations bench-burst bench-hosting lock clean

help: ## print this list
	@echo "Fairway: where should this work run, and why there?"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  make test ARGS='-k taints'     pass arguments on to pytest (likewise run and bench)"

$(STAMP): requirements-dev.lock pyproject.toml $(wildcard packages/*/pyproject.toml)
	@echo "==> setting up $(VENV) (once; $$($(PYTHON) --version))"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fairway needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) tools/install.py $(VENV)
	@touch $@
	@echo "==> ready: $(BIN)/fairway"

setup: $(STAMP) ## create .venv with locked versions

run: $(STAMP) ## start a hub with all controllers and twelve clusters that fill up, fail and recover
	@echo "==> fairway up --clusters 12 --period 10 --kubeconfig-out .cache/kubeconfig $(ARGS)"
	@mkdir -p .cache
	@$(BIN)/fairway up --clusters 12 --period 10 --kubeconfig-out .cache/kubeconfig $(ARGS)

test: $(STAMP) ## run the tests that need nothing but Python
	@echo "==> pytest"
	@$(BIN)/python $(PYTEST) -n 4 --dist worksteal -q -m "not kube and not soak" $(ARGS)

test-kube: $(STAMP) ## run the tests against a real kube-apiserver, which are skipped where Go is missing
	@$(BIN)/python tests/kube/tools/build.py --optional
	@echo "==> pytest -m kube"
	@$(BIN)/python $(PYTEST) -n 2 --dist worksteal -q -m "kube and not soak" $(ARGS)

soak: $(STAMP) ## run chaos and crash tests ten times as long, at random (needs Go for the part on a real hub)
	@echo "==> pytest with FAIRWAY_CHAOS=10"
	@FAIRWAY_CHAOS=10 $(BIN)/python -m pytest -n 2 --dist worksteal -q --timeout 3600 $(SOAKED) $(ARGS)

kube-tools: $(STAMP) ## build kube-apiserver, etcd, kubectl, kube-controller-manager, kube-scheduler, kwok and helm (once; needs Go)
	@$(BIN)/python tests/kube/tools/build.py

lint: $(STAMP) ## check code, types, imports, words, spelling, docstrings and docs
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> mypy --strict"
	@$(BIN)/mypy
	@echo "==> imports"
	@$(BIN)/lint-imports
	@echo "==> words and spelling"
	@$(BIN)/python tools/words.py
	@$(BIN)/python tools/docstrings.py
	@$(BIN)/codespell src packages docs tools benchmarks deploy examples *.md
	@echo "==> docs"
	@$(SPHINX)

SPHINX := $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs .cache/site

docs: $(STAMP) ## build the documentation site in .cache/site; broken links fail
	@$(SPHINX)
	@echo "==> .cache/site/index.html"

reference: $(STAMP) ## write the generated parts of docs/reference, and docs/house.svg, from the code
	@$(BIN)/python tools/reference.py
	@$(BIN)/python tools/house.py

bench: $(STAMP) ## measure placements at 1k, 10k, 100k and 1M clusters, and many placements at once
	@$(BIN)/python -m benchmarks.placement $(ARGS)
	@$(BIN)/python -m benchmarks.sweep

bench-sizing: $(STAMP) ## measure what the placement controller needs, by clusters and placements
	@$(BIN)/python -m benchmarks.sizing $(ARGS)

bench-hub: $(STAMP) ## measure the embedded hub beside a real kube-apiserver + etcd, and the client (needs Go)
	@$(BIN)/python tests/kube/tools/build.py
	@$(BIN)/python -m benchmarks.hub $(ARGS)
	@$(BIN)/python -m benchmarks.client

bench-fairness: $(STAMP) ## measure how long users of the embedded hub wait while one without rights attacks it
	@$(BIN)/python -m benchmarks.hub.fairness $(ARGS)

bench-controllers: $(STAMP) ## measure the controllers on a real kube-apiserver + etcd, beside its write limit (needs Go)
	@$(BIN)/python tests/kube/tools/build.py
	@$(BIN)/python -m benchmarks.controllers $(ARGS)

bench-scores: $(STAMP) ## measure what scores cost: writes of a whole fleet, the agent, from a pod to its score (needs Go)
	@$(BIN)/python tests/kube/tools/build.py
	@$(BIN)/python -m benchmarks.scores $(ARGS)

bench-framework: $(STAMP) ## measure the queue, the ledger and commits of the scheduling framework
	@$(BIN)/python -m benchmarks.framework $(ARGS)

bench-isolation: $(STAMP) ## measure what a plugin costs in a process of its own
	@$(BIN)/python -m benchmarks.isolation $(ARGS)

bench-machines: $(STAMP) ## measure pods per second on 5,000 nodes beside kube-scheduler, grants and moves (needs Go)
	@$(BIN)/python tests/kube/tools/build.py
	@$(BIN)/python -m benchmarks.machines $(ARGS)

bench-migrations: $(STAMP) ## compare policies of migration: moves per relieved unit, time to grant
	@$(BIN)/python -m benchmarks.machines.migrations $(ARGS)

bench-burst: $(STAMP) ## show how a burst of placements shares clusters, without and with score debits
	@$(BIN)/python -m benchmarks.burst $(ARGS)

bench-hosting: $(STAMP) ## measure a burst of requests for hosted clusters on both hubs, beside a plain Placement
	@$(BIN)/python tests/kube/tools/build.py --optional
	@$(BIN)/python -m benchmarks.hosting $(ARGS)

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate

lock: $(STAMP) ## refresh the locked versions, of the checkout and of the container
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(COMPILE) requirements-dev.in -o requirements-dev.lock
	@$(BIN)/python tools/runtime_requirements.py | $(COMPILE) -c requirements-dev.lock - -o deploy/requirements.lock
	@echo hatchling | $(COMPILE) -c requirements-dev.lock - -o deploy/build.lock
	@echo "==> requirements-dev.lock, deploy/requirements.lock and deploy/build.lock written"

clean: ## remove .venv and caches
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
