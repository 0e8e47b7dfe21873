# Every target makes its own environment: a machine needs Python and make, nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
ZOO    := $(VENV)/.zoo
TF     := $(VENV)/.tf
EXTRAS := torch,train,test,dev
# Two workers: the suite is sized for a small machine. make test WORKERS=8 on a larger one.
WORKERS ?= 2
ARGS   ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-zoo test-tf check format bench tables clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# pip runs again whenever the dependencies may have changed; the stamp is touched only when it succeeded.
$(STAMP): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]'
	touch $(STAMP)

demo: $(STAMP) ## a real model there, trained, and back
	$(BIN)/python examples/demo.py

test: $(STAMP) ## everything but the long runs
	$(BIN)/python -m pytest -n $(WORKERS) -m "not zoo" $(ARGS)

$(ZOO): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[zoo]'
	touch $(ZOO)

test-zoo: $(ZOO) ## the long runs over real models and many architectures
	$(BIN)/python -m pytest -n $(WORKERS) -m zoo $(ARGS)
	$(BIN)/python -m tests.architectures --to torch --workers $(WORKERS)
	$(BIN)/python -m tests.architectures --to tflite --workers $(WORKERS)
	$(BIN)/python -m tests.architectures --to trt --workers $(WORKERS)

$(TF): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test-tf]'
	touch $(TF)

test-tf: $(TF) ## files that TensorFlow's own converter makes; ARGS="conv --mode int8" for some of them
	$(BIN)/python -m tests.tf $(ARGS)

check: $(STAMP) ## style, types and architecture, in under a minute
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/architecture

format: $(STAMP) ## put the style right
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(STAMP) ## time and memory of conversions
	$(BIN)/python -m benchmarks $(ARGS)

tables: $(STAMP) ## the operator tables of the README, anew
	$(BIN)/python -m mlconverter.cli.tables README.md

clean: ## remove the environment and everything generated
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
