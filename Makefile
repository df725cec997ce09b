# Every command of the project. CI calls only these.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON ?= python3
UV := .venv/bin/uv
export UV_PYTHON_DOWNLOADS = never
export UV_COMPILE_BYTECODE = 1

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- the stack -------------------------------------------------------------------------------------------------------

.PHONY: up down clean ps logs kill stop start restart psql naive naive-down
up: ## start everything and wait until it is healthy (MODE=docker or native, PORT_OFFSET=1000)
	@infra/stack.sh up
down: ## stop everything; the data stays
	@infra/stack.sh down
clean: ## stop everything and remove the data
	@infra/stack.sh clean
ps: ## what runs, and how it is
	@infra/stack.sh ps
logs: ## the last lines of the logs: S=orders-relay for one process, F=1 to follow
	@infra/stack.sh logs $(if $(F),-f) $(S)
kill: need-S ## kill -9 a process: S=billing-consumer (it comes back; under Docker after make start)
	@infra/stack.sh kill $(S)
stop: need-S ## stop a process: S=billing-worker
	@infra/stack.sh stop $(S)
start: need-S ## start a process that was stopped: S=billing-worker
	@infra/stack.sh start $(S)
restart: need-S ## stop and start a process: S=orders-relay
	@infra/stack.sh restart $(S)
psql: ## a prompt in a database: DB=orders, billing or analytics
	@infra/stack.sh psql $(DB)
naive: ## the shop written the usual, wrong way, beside the right one: for make chaos NAIVE=1
	@mkdir -p .run && echo naive >.run/profiles && infra/stack.sh up
naive-down: ## stop the naive shop again
	@for name in naive-orders naive-billing; do infra/stack.sh stop $$name || exit 1; done; rm -f .run/profiles

# ---- proof -----------------------------------------------------------------------------------------------------------

OUTSIDE = .venv/bin/python -m infra.outside
.PHONY: order audit load chaos chaos-ci
CHAOS = $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RATE),--rate $(RATE)) $(ARGS)
order: .venv/run-installed ## place and confirm orders: N=100, RATE=20 for so many per second
	@$(OUTSIDE) loadtest.place_orders --count $(or $(N),1) $(if $(RATE),--rate $(RATE))
audit: .venv/run-installed ## was any order lost, doubled or changed? WAIT=60 to settle, ORDER=id for one life, ARGS=--json
	@$(OUTSIDE) services.control_room.audit $(if $(ORDER),--order $(ORDER),--wait $(or $(WAIT),60)) $(ARGS)
LOAD = $(if $(HEADLESS),--headless) $(if $(USERS),--users $(USERS)) $(if $(RATE),--rate $(RATE)) \
  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SHAPE),--shape $(SHAPE)) $(if $(DRAIN),--drain $(DRAIN)) $(ARGS)
load: .venv/run-installed .venv/load-installed ## Locust, then the audit: HEADLESS=1 RATE=20 USERS=20 MINUTES=1 SHAPE=steady, ramp, spike or limit DRAIN=900
	@$(OUTSIDE) loadtest.load $(LOAD)
chaos: .venv/run-installed $(if $(NAIVE),naive) ## orders while all breaks, then the audit: SEED=7 MINUTES=10 RATE=12; NAIVE=1
	@$(OUTSIDE) loadtest.chaos $(CHAOS) $(if $(NAIVE),--naive; status=$$?; $(MAKE) --no-print-directory naive-down; exit $$status)
chaos-ci: .venv/dev-installed ## two minutes of it, on a stack of its own
	@.venv/bin/python -m loadtest.chaos.ci --seed $(or $(SEED),18) --minutes $(or $(MINUTES),2) --rate $(or $(RATE),6) $(ARGS)

.PHONY: crash crash-all
crash: .venv/run-installed ## open one crash window: AT=billing.consumer.after_commit, ACTION=kill, pause or error
	@$(OUTSIDE) loadtest.crash --at $(or $(AT),"") $(if $(ACTION),--action $(ACTION))
crash-all: .venv/run-installed ## every crash window, by kill and by pause (about 20 minutes); ORDERS=5000 while orders pour in
	@$(OUTSIDE) loadtest.crash --all $(if $(ACTION),--action $(ACTION)) $(if $(ORDERS),--orders $(ORDERS)) $(if $(RATE),--rate $(RATE))

.PHONY: duplicate tamper poison late replay republish
duplicate: .venv/run-installed ## publish an order's event again, TIMES=100 times, and see nothing happen
	@$(OUTSIDE) loadtest.mischief duplicate --times $(or $(TIMES),100)
tamper: .venv/run-installed ## publish a known id with another payload
	@$(OUTSIDE) loadtest.mischief tamper
poison: .venv/run-installed ## publish events that nobody can apply: KIND=undecodable, invalid, too-large, unknown-type or null
	@$(OUTSIDE) loadtest.mischief poison $(if $(KIND),--kind $(KIND))
late: .venv/run-installed ## publish an event that is older than the inbox remembers
	@$(OUTSIDE) loadtest.mischief late
replay: .venv/run-installed ## let both consumers read the whole topic again
	@$(OUTSIDE) loadtest.mischief replay
republish: .venv/run-installed ## send Orders' events since a time once more: SINCE=2026-11-18T00:00Z
	@$(OUTSIDE) loadtest.mischief republish --since $(or $(SINCE),"")

.PHONY: need-S
need-S:
	@[ -n "$(S)" ] || { echo "which process? e.g. make $(MAKECMDGOALS) S=billing-consumer; make ps lists them"; exit 2; }

# ---- checks ----------------------------------------------------------------------------------------------------------

.PHONY: test test-campaigns test-walk test-mutants test-docs docs ci lint types format
# Tests of this kind mostly wait, so there are more workers than cores. A file stays with one worker: its servers are its.
TESTS = .venv/bin/python -m tests.support.servers .venv/bin/python -m pytest
PARALLEL = -n 4 --dist loadfile
test: .venv/dev-installed ## all tests but the slow campaigns, on real PostgreSQL and Kafka
	@$(if $(T),.venv/bin/python -m pytest $(T),$(TESTS) $(PARALLEL) || { [ $$? = 1 ] && \
	  echo "Once more, one at a time: what failed beside others on a busy machine" && $(TESTS) --last-failed -n 0; })
test-campaigns: .venv/dev-installed ## the tests that make test leaves out: slow, or at the mercy of a busy machine
	@.venv/bin/python -m pytest -m campaign
test-walk: .venv/dev-installed ## a long random walk of crashes through outbox, relay and inbox: WALKS=100 WALK_STEPS=40
	@WALKS=$(or $(WALKS),100) WALK_STEPS=$(or $(WALK_STEPS),40) .venv/bin/python -m pytest -n 0 -s tests/failure/test_random_walk.py
test-mutants: .venv/dev-installed ## take out each protection in a copy, and see which test goes red: M=name for one
	@.venv/bin/python -m tests.support.servers .venv/bin/python -m tests.mutants $(M)
test-docs: .venv/dev-installed .venv/run-installed ## run what README and tutorial print, and compare: C=05 for a chapter, WRITE=1 to correct
	@.venv/bin/python -W ignore -m tests.docs $(C) $(if $(WRITE),--write)
docs: .venv/run-installed .venv/docs-installed ## the docs as a site, in .run/site; the reference is written anew first
	@.venv/bin/python -W ignore -m infra.docs >/dev/null && .venv/bin/zensical build --strict --clean
ci: lint types test chaos-ci ## what CI runs: lint, types, tests, two minutes of chaos, three chapters of the tutorial
	@$(MAKE) --no-print-directory test-docs C="03 04 05"
lint: .venv/dev-installed ## style, and the rules of who may import whom
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/lint-imports --no-cache
types: .venv/dev-installed ## strict type checking
	@.venv/bin/mypy
format: .venv/dev-installed ## put the code into shape
	@.venv/bin/ruff check --fix . ; .venv/bin/ruff format .

# ---- measurements ----------------------------------------------------------------------------------------------------

.PHONY: bench bench-page
bench: .venv/dev-installed .venv/load-installed ## how fast the pattern is, against bars: QUICK=1 for a small run, ONLY=consumer, relay, latency, inbox, http, pdf or sweeps
	@.venv/bin/python -m loadtest.bench $(if $(QUICK),--quick) $(ONLY)
bench-page: .venv/dev-installed ## write docs/reference/benchmarks.md from the figures of the last bench
	@.venv/bin/python -m loadtest.bench.pages

# ---- installation ----------------------------------------------------------------------------------------------------

.venv/bin/uv:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not on PATH. Debian, Ubuntu: sudo apt-get install python3 python3-venv"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; $$($(PYTHON) --version) is too old. Name a newer one: make PYTHON=python3.13 …"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. Debian, Ubuntu: sudo apt-get install python3-venv"; exit 1; }
	@echo "preparing .venv with $$($(PYTHON) --version)"
	@rm -rf .venv && $(PYTHON) -m venv .venv
	@if command -v uv >/dev/null; then ln -s "$$(command -v uv)" $@; \
	 else .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt || { \
	   echo "uv could not be installed: is the network there?"; rm -rf .venv; exit 1; }; fi

.venv/%-installed: requirements/%.txt | .venv/bin/uv
	@echo "installing requirements/$*.txt"
	@$(UV) pip install --python .venv/bin/python --require-hashes -r requirements/$*.txt || { \
	  echo "The packages could not be installed. Check the network, then run the same command again."; exit 1; }
	@touch $@

GROUPS = orders billing analytics housekeeping control_room run uv load docs
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $(UPGRADE)
.PHONY: lock
lock: .venv/bin/uv ## write requirements/*.txt anew from pyproject.toml (UPGRADE=--upgrade for newer versions)
	@$(COMPILE) --group dev --output-file requirements/dev.txt
	@for group in $(GROUPS); do \
	  $(COMPILE) --group $$group --constraints requirements/dev.txt --output-file requirements/$$group.txt; done
