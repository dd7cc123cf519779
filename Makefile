# `make demo` and `make test` set up everything they need in .venv, from requirements.lock.

PYTHON ?= python3
BIN := .venv/bin
OUT ?= out/demo

.PHONY: demo test lint types unit unit-first unit-second bench lock clean

demo: .venv/installed
	$(BIN)/sagewing demo --out $(OUT)

test: lint types unit

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/pyright

# In two processes at once: each has a core, and room for so many compiled programs.
unit: .venv/installed
	$(MAKE) --jobs=2 --output-sync=target unit-first unit-second

unit-first:
	$(BIN)/pytest tests/test_[a-o]*.py

unit-second:
	$(BIN)/pytest tests/test_[p-z]*.py

bench: .venv/installed
	$(BIN)/python benchmarks/batched_ekf.py
	$(BIN)/python benchmarks/chaos_table.py
	$(BIN)/python benchmarks/training_step.py
	$(BIN)/python benchmarks/online_step.py

.venv/installed: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# Needs uv; writes versions and hashes, and no index address.
lock:
	uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --extra dev \
	  --no-header --no-annotate --output-file requirements.lock pyproject.toml requirements.build

clean:
	rm -rf .venv out .pytest_cache .ruff_cache .hypothesis
