# make test: everything, set-up included. make help lists the rest.
SHELL := /bin/bash
PY := .venv/bin/python
# The system's interpreter where it will do: other accounts can run it too.
PYTHON ?= $(shell for p in /usr/bin/python3 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
N ?= 16

.PHONY: help demo test quick lint bench screenshots lab format clean system

help:
	@echo "make demo    set up, then open the screen on a simulated cluster (a large one: DEMO=\"--nodes 2048\")"
	@echo "make test    set up, then run every check and test (lab tests need root on Debian)"
	@echo "make quick   the checks and the tests that need no lab, in under a minute"
	@echo "make lab     bring up a real Slurm with N=$(N) GPU nodes on this machine, until Ctrl-C"
	@echo "make bench   print the figures of every budget"
	@echo "make screenshots   draw screenshots/ anew, from a lab"
	@echo "make format  format the code"

# System packages: only as root on a system with apt-get, and only when something is missing.
system:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  missing=$$(for p in $$(cat tests/lab/packages.txt); do dpkg -s $$p >/dev/null 2>&1 || echo $$p; done); \
	  if [ -n "$$missing" ]; then \
	    echo "installing:" $$missing; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	  fi; \
	else \
	  echo "not root on Debian: no system packages installed, lab tests will be skipped"; \
	fi

.venv/ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "gputop needs Python 3.11 or newer as python3"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) has no venv: apt-get install python3-venv"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv .venv
	$(PY) -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/ready
	@.venv/bin/gputop demo $(DEMO)

lint: .venv/ready
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

quick: lint
	$(PY) -m pytest -q -n 2 -m "not lab and not slow"

test: system lint
	$(PY) -m pytest -q -n 2 -m "not lab"
	$(PY) -m pytest -q -m lab

bench: system .venv/ready
	$(PY) -m tests.bench

screenshots: .venv/ready
	$(PY) -m tests.screens

lab: system .venv/ready
	$(PY) -m tests.lab up -n $(N)

format: .venv/ready
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
