# The same verbs here and in CI. Everything they need is installed from requirements/*.lock into .venv;
# nothing but Python 3.11 or newer has to be there (Java 17 for the pipeline).
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# The part of the code that people write: formatters and linters leave generated modules alone.
CODE := src tests tools bench examples

# Nodes start three times as fast from compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv demo test check format lint types layers tidy commits unit unit-first unit-second sim sim-mutants bench interop peers messages golden docs dist image deb lock clean

help: ## These lines
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Barnabas needs Python 3.11 or newer; set PYTHON=/path/to/one" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q src
	@touch $@

venv: $(STAMP) ## Create .venv from the lock files

demo: venv ## Three nodes, a real event stream, a killed leader, Spark at the end, and pages that say why (SECURE=1: by TLS and SASL)
	$(BIN)/python -m barnabas.demo --console $(if $(SECURE),--secure)

test: venv ## All tests (under half an hour on two cores); brings Kafka's Java clients (34 MB) where Java 17 is there
	$(if $(POLLER),BARNABAS_SYSTEM=portable BARNABAS_POLLER=$(POLLER) )$(BIN)/python -m tools.run_tests

# Two of these at a time, the longest first; the tests in two parts of about the same length.
check: venv ## Under a minute, with a cold cache of types a little more: what every commit passes (`make test` has the slow tests)
	@$(MAKE) --no-print-directory -j2 --output-sync=target types unit-first unit-second tidy layers format lint commits

format: venv
	$(BIN)/ruff format --check $(CODE)

lint: venv
	$(BIN)/ruff check $(CODE)

types: venv
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src/barnabas/host/system

layers: venv
	$(BIN)/lint-imports

tidy: venv
	$(PYTEST) -q $(addprefix tests/test_,tidy.py prose.py wiring.py) $(addprefix tests/docs/test_,paths.py invariants.py diagrams.py)

commits: venv
	$(BIN)/python -m tools.commit_subjects

UNIT := BARNABAS_EFFORT=0.05 $(PYTEST) -q -m "not slow"
unit: unit-first unit-second

FIRST_HALF := $(addprefix tests/unit/,broker log raft security zookeeper)
unit-first: venv
	$(UNIT) $(FIRST_HALF)

unit-second: venv
	$(UNIT) tests/unit tests/contract tests/golden tests/scripts tests/sim/test_mutants.py $(addprefix --ignore=,$(FIRST_HALF))

SEEDS ?= 1000
FROM ?= 1
sim: venv ## SEED=n replays one, FROM=n SEEDS=m runs many, and then all examples that tests draw
	$(BIN)/python -m barnabas.sim $(if $(SEED),--seed $(SEED),--from $(FROM) --seeds $(SEEDS)) $(ARGS)
	$(if $(SEED),,BARNABAS_EFFORT=1 $(PYTEST) -q -m slow tests/model tests/unit)

sim-mutants: venv ## Plant each of the known bugs, play seeds until it is found (minutes), print the table
	$(BIN)/python -m tests.sim.mutants $(ARGS)

bench: venv ## Figures beside Kafka's and beside Spark's connector (after `make peers`), written to bench/results
	$(BIN)/python -m bench.log
	$(BIN)/python -m bench.cluster $(ARGS)
	$(BIN)/python -m bench.consumers
	$(BIN)/python -m bench.tls --rounds 3
	$(BIN)/python -m bench.scrape
	$(BIN)/python -m bench.share
	$(BIN)/python -m bench.share_idle
	$(BIN)/python -m bench.spark --rows 1000000 --rounds 2 --minutes 25

interop: venv ## All tests with other people's clients and Apache Kafka beside us; fails where these are missing (ALL=1: all programs, not a third); two runs at a time
	$(if $(ALL),BARNABAS_ALL=1 )$(BIN)/python -m tools.run_interop $(ARGS)

peers: ## Apache Kafka 4.4.0 into peers/libs44, 4.3.0 into peers/libs, its clients and Connect into peers/clients, 3.9.1 with its ZooKeeper into peers/libs39, Apache Flink into peers/flink, Apache Camel into peers/camel, Vert.x into peers/vertx, Apache Pekko into peers/pekko, Debezium into peers/debezium, Hadoop's S3A and an S3 server, for benchmarks and comparisons
	$(PYTHON) -m tools.peers

GENERATED := src/barnabas/wire/messages src/barnabas/metadata/records src/barnabas/group/records src/barnabas/share/records src/barnabas/transaction/records
# Of Apache Kafka 3.9.1, which `make peers` brings.
CLIENTS_39 ?= peers/libs39/kafka-clients-3.9.1.jar
messages: venv ## Write the protocol's classes again from Kafka's definitions (after `make peers`)
	$(BIN)/python tools/generate_messages.py peers/libs44 $(CLIENTS_39)
	$(BIN)/ruff check --quiet --select I --fix $(foreach folder,$(GENERATED),$(folder)/*.py) src/barnabas/wire/messages/kafka39/*.py
	$(BIN)/ruff format --quiet src/barnabas/wire/api_table.py $(foreach folder,$(GENERATED),$(folder)/*.py) src/barnabas/wire/messages/kafka39/*.py

golden: ## Write tests/golden again by Kafka's own classes (after `make peers`, needs Java)
	java -cp "peers/libs44/*" tests/golden/Golden.java tests/golden/messages.json.gz

docs: venv ## Write what is generated under docs/
	$(BIN)/python -m tools.docs

dist: venv ## Wheel, source distribution, list of packages (CycloneDX) and sums of what is committed, into dist
	$(BIN)/python -m tools.distribution

image: venv ## A container image of what is committed, as an OCI layout and archive in build/image (on Debian 12)
	$(BIN)/python -m tools.image

deb: venv ## A package for Debian 12 of what is committed, in build/deb
	$(BIN)/python -m tools.deb

lock: venv ## Resolve pyproject.toml again into requirements/*.lock
	$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet uv
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	  --custom-compile-command "make lock" pyproject.toml -o requirements/runtime.lock
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	  --custom-compile-command "make lock" --extra dev pyproject.toml -o requirements/dev.lock
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	  --custom-compile-command "make lock" requirements/release.in -o requirements/release.lock
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	  --custom-compile-command "make lock" --extra console --extra security --extra telemetry --extra zookeeper \
	  pyproject.toml -o requirements/image.lock

clean: ## Remove what was built; .venv and peers stay
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +
