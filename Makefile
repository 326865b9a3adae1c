# Everything a contributor runs. Needs Python 3.11, pip and make; the rest is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
# Two test processes on two cores: one torch thread each, or they fight for the cores.
WORKERS ?= 2
# Whatever the caller says: what is imported is compiled once, and not in each of a hundred processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: test check demo bench-loss bench-certify bench-measure bench-ufm bench-training bench-tables bench-out-of-class docs clean

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS)

check: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Trains on the embedded digits: under a minute, and a report to look at.
demo: .venv/installed
	$(BIN)/orthoframe train

bench-loss: .venv/installed
	$(BIN)/python benchmarks/loss.py --json docs/results/loss.json

bench-certify: .venv/installed
	$(BIN)/python benchmarks/certify.py --json docs/results/certify.json

bench-measure: .venv/installed
	$(BIN)/python benchmarks/measure.py --json docs/results/measure.json

bench-ufm: .venv/installed
	$(BIN)/python benchmarks/ufm.py --json docs/results/ufm.json

bench-training: .venv/installed
	$(BIN)/python benchmarks/training.py --json docs/results/training.json

bench-tables: .venv/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/tables.py --json docs/results/tables.json --table docs/results/tables.md

bench-out-of-class: .venv/installed
	$(BIN)/python benchmarks/out_of_class.py --json docs/results/out-of-class.json

# The documentation site, into build/site; a warning is an error.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The stamp is newer than the files that decide what is installed: a second run installs nothing.
# Not compiled: most of what is installed is never imported, and compiling it takes as long as all the rest.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis
