# Two commands do all the set-up: `make demo` and `make test`. See CONTRIBUTING.md.
PYTHON ?= python3
BIN := .venv/bin
# BLAS gains nothing from more threads than pytest has workers.
WORKERS ?= auto
# Python keeps what it compiled of the sources, and pytest of the tests, whatever is set outside: tests start many processes.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test lint types check slow bench golden docs dist screenshots clean
.DELETE_ON_ERROR:

demo: .venv/core
	$(BIN)/cesaro evaluate examples/queue.parquet --policy candidate=examples/queue_policy.py:candidate \
	  --observation free_servers --observation priority --kind free_servers=category --trajectory agent \
	  --unit "per customer" --out demo --force
	$(BIN)/python examples/queue_truth.py demo

# Types take one core for a minute the first time, so that they share the time of the tests.
test: lint
	@$(MAKE) --no-print-directory -j2 types check

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/test
	$(BIN)/mypy

check: .venv/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow"

# Tests of Ray, of the browser and of long studies, which continuous integration runs after the others.
slow: .venv/test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist worksteal -m slow

bench: .venv/test
	$(BIN)/python -m benchmarks

# Results of this tree against those of the commit BASE, byte for byte; OPTIONS='--only sweep-*' runs a part of the cases.
golden: .venv/test
	@$(BIN)/python -m benchmarks golden $(if $(BASE),--base $(BASE)) $(OPTIONS)

docs: .venv/docs .venv/test
	JAX_PLATFORMS=cpu $(BIN)/python docs/hooks/site_build.py
	CESARO_ALL_PAGES=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) tests/test_docs.py tests/browser/test_site.py

# The wheel and the sdist, in dist/.
dist: .venv/test
	$(BIN)/python -m build --no-isolation

# The pictures of the demo's report in the documentation; needs Chromium.
screenshots: .venv/test
	test -f demo/report.html || $(MAKE) demo
	PYTHONPATH=tests $(BIN)/python -m browser.screenshots demo/report.html docs/images

clean:
	rm -rf .venv .cache .mypy_cache .ruff_cache .hypothesis demo dist site

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "cesaro needs Python 3.11 or newer; got $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv

# A stamp file per set of extras: nothing is installed again until pyproject.toml or the constraints change.
.venv/core: .venv/bin/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/test: .venv/bin/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ .venv/core

.venv/docs: .venv/bin/python pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@ .venv/core
