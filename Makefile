# Everything a contributor runs. Needs Python 3.11 to 3.13, pip and make; the rest is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
# Two test processes on two cores: one torch thread each, or they fight for the cores.
WORKERS ?= 2
# Whatever the caller says: what is imported is compiled once, and not in each of a hundred processes.
export PYTHONDONTWRITEBYTECODE :=

# bench-out-of-class runs benchmarks/out_of_class.py and writes docs/results/out-of-class.json; the other benchmarks likewise.
BENCHMARKS := $(subst _,-,$(patsubst benchmarks/%.py,bench-%,$(filter-out benchmarks/_%,$(wildcard benchmarks/*.py))))

.PHONY: test check fuzz demo docs clean $(BENCHMARKS)

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) $(if $(CI),--durations=20)

check: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/zizmor --quiet --offline .github/workflows

# Hostile inputs, as many as wanted; `make fuzz TARGET=idx SEED=0 CASE=123` runs one of them again.
CASES ?= 100000
SEED ?= 0
fuzz: .venv/test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --cases $(CASES) --seed $(SEED) $(if $(TARGET),--target $(TARGET)) $(if $(CASE),--case $(CASE))

# Trains on the embedded digits in ten seconds, and writes a report to look at.
demo: .venv/runtime
	$(BIN)/orthoframe train --adjust 0.25

# The documentation site, into build/site; a warning is an error.
docs: .venv/test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(BENCHMARKS): bench-%: .venv/test
	$(BIN)/python benchmarks/$(subst -,_,$*).py --json docs/results/$*.json $(OPTIONS)

bench-tables bench-classes: .venv/bench
bench-tables: OPTIONS := --table docs/results/tables.md
# Two of its sets are files of an R package: where the folder is not there, they are left out.
MLBENCH ?= build/mlbench/usr/lib/R/site-library/mlbench/data
bench-classes: OPTIONS := $(addprefix --mlbench ,$(wildcard $(MLBENCH))) --table docs/results/classes.md
bench-images: OPTIONS := --table docs/results/images.md $(if $(NPZ),--npz $(NPZ))
bench-unknown: OPTIONS := $(if $(NPZ),--npz $(NPZ))
# Otherwise the C library gives large blocks back to the system after every step, for a tenth of the time.
bench-paper-size: export MALLOC_MMAP_THRESHOLD_ := 4294967296
bench-paper-size: export MALLOC_TRIM_THRESHOLD_ := 8589934592
bench-paper-size: export MALLOC_TOP_PAD_ := 1073741824
bench-folders: export OMP_NUM_THREADS := 1
bench-folders: OPTIONS := --table docs/results/folders.md $(if $(NPZ),--npz $(NPZ)) --busy
bench-reliability: OPTIONS := --page docs/reliability.md

# Each stamp is newer than the files that decide what is installed: a second run installs nothing.
# Not compiled: most of what is installed is never imported, and compiling it takes as long as all the rest.
.venv/runtime: INSTALLED := --editable '.[train]'
.venv/test: INSTALLED := --editable '.[test]' --editable './studies[ray]'
.venv/bench: INSTALLED := --editable '.[test,bench]' --editable './studies[ray]'
.venv/runtime .venv/test .venv/bench: pyproject.toml studies/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt $(INSTALLED)
	touch .venv/runtime $@

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .hypothesis
