# Every command of the project. `make help` lists them; a first `make test` needs python3 with venv
# and PyPI, no service, no Docker, no root, and writes only below this folder and the temp folder.

PYTHON ?= python3
VENV ?= .venv

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# mypy refuses a folder that holds no Python.
TYPED := $(foreach root,server_mw client_sdk shared tests examples benchmarks,\
  $(if $(shell find $(root) -name '*.py' -print -quit 2>/dev/null),$(root)))

# The checkers' caches stay in the tree; pip's goes to HOME, unless HOME cannot be written.
PIP_CACHE := $(shell test -w "$$HOME" || echo --no-cache-dir)
PIP := $(BIN)/python -m pip --disable-pip-version-check $(PIP_CACHE)

# Bytecode is kept: each of the tests' thousands of processes would compile the sources again.
export PYTHONDONTWRITEBYTECODE :=

# pyright: the node of its wheel, whatever else is on PATH, and no question to the network whether
# there is a newer release.
export PYRIGHT_PYTHON_GLOBAL_NODE := 0
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test check lint types imports unit test-slow chaos bench bench-peers \
  bench-claims format requirements clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## the environment in $(VENV), from requirements-dev.txt

$(STAMP): requirements-dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --require-hashes -r requirements-dev.txt
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	touch $@

demo: install ## a payment, retried through crashes (POSTGRES=url REDIS=url PAYMENTS=file)
	$(BIN)/python examples/demo $(if $(POSTGRES),--postgres "$(POSTGRES)") \
	  $(if $(REDIS),--redis "$(REDIS)") $(if $(PAYMENTS),--payments "$(PAYMENTS)")

test: check unit ## everything but the slow tests: what has to be green before a merge

check: lint types imports ## the checks that run no code of ours

lint: install ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install ## mypy and pyright, strict
	$(BIN)/mypy $(TYPED)
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: install ## who may import whom
	$(BIN)/lint-imports --no-logo

# Most tests wait, for a lease or a server, more than they compute.
WORKERS ?= 3

unit: install ## the tests alone, WORKERS=3 at a time, each with servers of its own
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(WORKERS) --dist worksteal

test-slow: install ## the tests marked slow
	$(BIN)/python -m pytest -m slow --numprocesses $(WORKERS) --dist worksteal

chaos: install ## faults on real processes, ten minutes (CHAOS_ARGS="--seconds 60 --seed 7")
	PYTHONPATH=tests $(BIN)/python -m chaos --seconds 600 --seed 1 $(CHAOS_ARGS)

bench: install ## throughput of every path against its goal, and the plots of scale (BENCH_ARGS=…)
	$(BIN)/python -m benchmarks.throughput $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.scale

bench-peers: install ## ours beside other projects with a durable store (PyPI, 20 to 30 minutes)
	$(BIN)/python -m benchmarks.peers $(BENCH_ARGS)

bench-claims: install ## claims among 20 million receipts: 10 to 20 minutes, 7 GB of disk (BENCH_ARGS=…)
	$(BIN)/python -m benchmarks.claims_by_size --limit 1.25 $(BENCH_ARGS)

format: install ## let ruff rewrite the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

requirements: ## rewrite requirements-dev.txt from pyproject.toml (needs uv; UV_ARGS=--upgrade)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-emit-index-url --no-emit-find-links --all-extras --group pyproject.toml:dev \
	  $(UV_ARGS) -o requirements-dev.txt pyproject.toml

clean: ## remove the environment, caches and builds
	rm -rf $(VENV) build dist htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache \
	  .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
