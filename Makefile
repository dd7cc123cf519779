# `make demo` and `make test` set up everything they need in .venv, from requirements.lock.

PYTHON ?= python3
BIN := .venv/bin
OUT ?= out/demo
SLOWEST := --durations=15 --durations-min=3

.PHONY: demo test lint types unit unit-first unit-second fuzz docs five-minutes bench lock clean

demo: .venv/installed
	$(BIN)/sagewing demo --out $(OUT) --force

test: lint types unit

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed
	$(BIN)/pyright

# In two processes of about the same processor time: each has a core, and room for so many programs.
# The second checks shapes in all that it traces; the first, of C and commands, in the commands only.
unit: .venv/installed
	$(MAKE) --jobs=2 --output-sync=target unit-first unit-second

unit-first:
	$(BIN)/pytest --jaxtyping-packages=sagewing.cli,beartype.beartype $(SLOWEST) tests/test_[a-f]*.py

unit-second:
	$(BIN)/pytest $(SLOWEST) tests/test_[g-z]*.py

# Mutated files, random programs and troubled records, as many as one likes: some hours by default.
FUZZ_EXAMPLES ?= 10000
fuzz: .venv/installed
	XLA_FLAGS= FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(BIN)/pytest -m fuzz -rP

# The site of docs/, into out/site; a warning is an error.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# docs/start.md in a clean virtual environment, command by command; needs a package index.
five-minutes: .venv/installed
	SAGEWING_FIVE_MINUTES=1 $(BIN)/pytest tests/test_five_minutes.py

bench: .venv/installed
	$(BIN)/python benchmarks/batched_ekf.py
	$(BIN)/python benchmarks/smoothing.py
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
