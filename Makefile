# Needs Python 3.12, make and git; everything else is brought into the checkout (.venv, and .uv when there is no uv).
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Twice as many as cores: much of a test is waiting for a program that it started.
WORKERS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))
# Where nothing may be written beside the source, every worker would compile every test anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo test test-all check format soak coverage sizes bench bench-tasks bench-peers clean screenshots docs models

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 23

setup: ## bring the environment in step with uv.lock (every target does this first)
	@scripts/setup
	@.venv/bin/python -m adderclaw.policy.legacy.programs.generate

demo: setup ## watch a real agent run against a scripted model: no key, no network
	@.venv/bin/python demo/run.py

test: setup ## every promise once, in minutes (ARGS="-k gate" narrows)
	@.venv/bin/pytest -n $(WORKERS) --dist worksteal --quick $(ARGS)
	@.venv/bin/python scripts/acceptance.py left-to-test-all

test-all: setup ## all tests: also browsers, servers, matrices and a share of each long loop
	@.venv/bin/pytest -n $(WORKERS) --dist worksteal $(ARGS)

soak: setup ## the long loops, whole
	@ADDERCLAW_SOAK=1 .venv/bin/pytest tests -m soak $(ARGS)

coverage: setup ## which lines of the core modules the tests run; fails below 85 % of any (ARGS="tests/tools/skills" narrows)
	@.venv/bin/python scripts/measure_coverage.py $(ARGS)

sizes: setup ## packages with lines, public names, longest function and file; SINCE=<ref> adds their growth
	@.venv/bin/python scripts/sizes.py $(SINCE)

check: setup ## formatting, lint, types, import direction
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/pyright
	.venv/bin/lint-imports

format: setup ## rewrite the files as `make check` wants them
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: setup ## measure against a standard-library loop and rewrite the table in docs/dev/performance.md
	@.venv/bin/python bench/run.py $(ARGS)
	@.venv/bin/python bench/checkpoints.py
	@.venv/bin/python bench/verdict.py
	@.venv/bin/python bench/turn.py

docs: setup ## the documentation as a site in build/docs: warnings are errors, every link is checked, no network is used
	@.venv/bin/sphinx-build -W --keep-going -q -j auto -d build/docs-cache docs build/docs
	@.venv/bin/python scripts/check_site.py build/docs

bench-tasks: setup ## how many of 50 small tasks a model solves, by hidden checks (ARGS="--provider anthropic --max-cost 5")
	@.venv/bin/python bench/tasks/run.py $(ARGS)

bench-peers: setup ## the same beside other agents (scripts/install-peers brings them); writes docs/dev/benchmarks.md; needs root
	@.venv/bin/python bench/peers/run.py $(ARGS)

screenshots: setup ## draw the pictures in docs/pictures anew; needs tmux and Chromium
	@.venv/bin/python scripts/screenshots.py
	@.venv/bin/python scripts/screenshot_pages.py

models: setup ## write the table of models from the newest genai-prices: run it before each release and commit the result
	@.venv/bin/python scripts/generate_models.py $(ARGS)

build: setup ## wheel and sdist in dist, the same bytes from the same commit
	@scripts/build-packages dist && ls -sh dist/*.whl dist/*.tar.gz

compile: setup ## dist/adderclaw: one file that needs no Python; on Linux x86-64 dist/adderclaw-linux, too
	@scripts/compile

image: setup ## the container image, by docker, podman or buildah, whichever is here
	@scripts/build-image

release-check: setup ## the slow shows: single file in a root without Python, wheel, two Pythons, image; ARGS=--due: where an input changed
	@.venv/bin/python scripts/release_check.py $(ARGS)

clean: ## remove what the targets made
	rm -rf .venv .uv .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find src tests demo bench -name __pycache__ -type d -prune -exec rm -rf {} +
