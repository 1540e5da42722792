# Needs python3 (3.11 to 3.13), git and make; everything else comes from the lock file into .venv and .tools.
UV := $(or $(shell command -v uv),.tools/bin/uv)
export UV_PYTHON_DOWNLOADS ?= never
export UV_SYSTEM_CERTS ?= 1
export UV_COMPILE_BYTECODE ?= 1
RUN := $(UV) run -q --locked --all-extras

.PHONY: help demo test check lint format types architecture spelling docs docs-check bench-deploy chaos-jobs bench-jobs bench-frontier chaos-frontier simulate lab lab-down test-lab bench-lab test-web chaos-cron bench-watch clean
.DEFAULT_GOAL := help

help: ## list what can be made
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /	/' | expand -t 16

demo: $(UV) ## three local nodes, a real crawl, its result on screen
	@$(UV) run -q --locked --all-extras --no-dev crawlctl demo

test: $(UV) ## all tests
	@$(RUN) pytest -n auto --dist loadfile --no-loadscope-reorder

check: lint types architecture spelling docs-check test ## everything that CI runs

lint: $(UV)
	@$(RUN) ruff check
	@$(RUN) ruff format --check

format: $(UV) ## mend what ruff can mend
	@$(RUN) ruff check --fix-only -q
	@$(RUN) ruff format -q

types: $(UV)
	@$(RUN) mypy

architecture: $(UV)
	@$(RUN) lint-imports --no-cache

spelling: $(UV)
	@$(RUN) codespell

docs: $(UV) ## write the generated reference anew
	@$(RUN) python -m toolkit.cli.reference

docs-check: $(UV)
	@$(RUN) python -m toolkit.cli.reference --check

bench-deploy: $(UV) ## crawlctl beside the stock tools, on the same nodes
	@$(RUN) python tests/benchmarks/bench_deploy.py

bench-jobs: $(UV) ## the shared queue beside stock Scrapyd
	@$(RUN) python tests/benchmarks/bench_jobs.py

bench-frontier: $(UV) ## the shared frontier beside plain Scrapy and scrapy-redis
	@$(RUN) python tests/benchmarks/bench_frontier.py $(ARGS)

chaos-jobs: $(UV) ## everything fails under a real cluster: SEED=7 JOBS=200 ARGS="--lease-s 15 --full"
	@$(RUN) python tests/chaos/chaos_jobs.py --seed $(or $(SEED),7) --jobs $(or $(JOBS),200) $(ARGS)

chaos-frontier: $(UV) ## everything fails under one crawl: SEED=7 PAGES=5000 MODE=scrapy-redis ARGS="--rollback"
	@$(RUN) python tests/chaos/chaos_frontier.py --seed $(or $(SEED),7) --pages $(or $(PAGES),5000) --mode $(or $(MODE),crawlctl) $(ARGS)

simulate: $(UV) ## nodes and workers under faults, in simulated time: SEED=1 SEEDS=2000 ARGS=--trace
	@$(RUN) python tests/simulation/program.py --seed $(or $(SEED),1) --seeds $(or $(SEEDS),2000) $(ARGS)

lab: $(UV) ## real hosts on this machine, to try things by hand; needs root: HOSTS=4
	@PYTHONPATH=tests $(RUN) python -m support.lab up $(or $(HOSTS),4)

lab-down: $(UV) ## remove them
	@PYTHONPATH=tests $(RUN) python -m support.lab down

test-lab: $(UV) ## the stories on real hosts; needs root
	@$(RUN) python tests/lab/run_stories.py $(ARGS)

bench-lab: $(UV) ## provisioning and rollouts on real hosts; needs root
	@$(RUN) python tests/benchmarks/bench_lab.py $(ARGS)

test-web: $(UV) ## the pages in a real Chromium, sign-in, rights, and the API against its own schema
	@$(RUN) pytest tests/web $(ARGS)

chaos-cron: $(UV) ## nodes and Redis are killed around the minute: SEED=7
	@$(RUN) python tests/chaos/chaos_cron.py --seed $(or $(SEED),7) $(ARGS)

bench-watch: $(UV) ## pages, the full-screen terminal, crons and alerts, measured
	@$(RUN) python tests/benchmarks/bench_watch.py $(ARGS)

clean: ## remove what the targets above made
	rm -rf .venv .tools .crawlctl .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.tools/bin/uv:
	@python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --target .tools uv
