# A fresh checkout with Python 3.11+, a C compiler and make needs nothing else: what is missing goes into .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
NATIVE := $(wildcard native/*.c native/*.h)
PROGRAM := src/lastout/_bin/lastout-supervisor

# The package as a user has it, and on top of it what developing needs.
BASE := $(VENV)/.base
DEV  := $(VENV)/.dev

# So that the tests find the programs of .venv (lastout, uv) by name.
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo test hosts torture check native bench wheels fuzz soak load old-kernel machine clean

help:
	@echo "make demo      a rude agent, with and without lastout, told in sentences"
	@echo "make test      the tests, against real processes"
	@echo "make hosts     installs the hosts that the survey looks at (0.7 GB); make test skips it without them"
	@echo "make check     lint, types, C warnings of gcc and clang, a build with ASan and UBSan"
	@echo "make torture   the tests that repeat, for a long time"
	@echo "make bench     the tables of the README; ARGS=--short for a quick look"
	@echo "make fuzz      feeds the supervisor's parsers with nonsense; SECONDS=60"
	@echo "make soak      runs at random, killed and frozen: nothing may grow; MINUTES=30"
	@echo "make load      the tests on a machine that is against them: busy, writing, stopped and frozen at random"
	@echo "make machine   the supervisor on another kernel, in QEMU; KERNEL=vmlinuz MACHINE=aarch64"
	@echo "make old-kernel  the tests, with a supervisor that takes this kernel for an old one"
	@echo "make wheels    the files of a release, from the last commit, into dist/"
	@echo "make native    the supervisor alone"
	@echo "make clean     away with everything that was built"

demo: $(BASE) $(PROGRAM)
	@$(BIN)/lastout demo

test: $(DEV) $(PROGRAM)
	$(BIN)/python -m pytest -q $(ARGS)

hosts: $(VENV)/.hosts

torture: $(DEV) $(PROGRAM)
	$(BIN)/python -m pytest -q -m torture --timeout 3600 $(ARGS)

bench: $(DEV) $(PROGRAM)
	$(BIN)/python -m bench $(ARGS)

fuzz: SECONDS = 60
fuzz:
	@$(PYTHON) tests/fuzz/build.py --seconds $(SECONDS)

soak: MINUTES = 30
soak: $(DEV) $(PROGRAM)
	$(BIN)/python tests/soak/soak.py --minutes $(MINUTES) $(ARGS)

load: CORES = $(shell nproc)
load: $(DEV) $(PROGRAM)
	$(BIN)/python tests/load/load.py --cores $(CORES) -- $(ARGS)

machine: MACHINE = aarch64
machine: $(VENV)/.release
	@$(BIN)/python tests/machine/machine.py --machine $(MACHINE) --kernel '$(KERNEL)'

# In a copy, so that the whole suite, the Python package included, finds that supervisor and no other.
OLD := build/old-kernel
AGENTS := $(or $(LASTOUT_TEST_AGENTS),$(CURDIR)/build/agents)
old-kernel: $(DEV)
	@rm -rf $(OLD) && mkdir -p $(OLD)
	@tar -c --exclude=./build --exclude=./.venv --exclude=./.git --exclude=./dist . | tar -x -C $(OLD)
	cd $(OLD) && CFLAGS=-DLASTOUT_OLD_KERNEL $(CURDIR)/$(BIN)/python hatch_build.py
	cd $(OLD) && PYTHONPATH=$(CURDIR)/$(OLD)/src LASTOUT_TEST_AGENTS=$(AGENTS) \
	    $(CURDIR)/$(BIN)/python -m pytest -q --ignore tests/supervisor/test_mutants.py $(ARGS)

wheels: $(VENV)/.release
	@$(BIN)/python tools/wheels.py $(ARGS)

native:
	@$(PYTHON) hatch_build.py

check: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/mypy
	@mkdir -p build
	@for compiler in gcc clang; do \
	    if command -v $$compiler >/dev/null; then \
	        $(BIN)/python hatch_build.py --cc $$compiler --link dynamic --output build/$$compiler/lastout-supervisor || exit 1; \
	    else echo "$$compiler is not installed: its warnings were not checked"; fi; \
	done
	$(BIN)/python hatch_build.py --sanitize --output build/sanitize/lastout-supervisor
	build/sanitize/lastout-supervisor --stdin-end ignore -- true
	build/sanitize/lastout-supervisor --stdin-end ignore --budget instant -- sh -c 'setsid sleep 60 & exit 0'

$(PROGRAM): $(NATIVE) hatch_build.py src/lastout/_version.py
	@$(PYTHON) hatch_build.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; name one with PYTHON=...") if sys.version_info < (3, 11) else 0'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade 'pip>=25.1'

$(BASE): $(VENV)/bin/python pyproject.toml hatch_build.py
	@$(PIP) install --editable .
	@touch $@

$(DEV): $(BASE)
	@$(PIP) install --group dev
	@touch $@

$(VENV)/.hosts: $(DEV)
	@$(PIP) install --upgrade --group hosts
	@touch $@

$(VENV)/.release: $(BASE)
	@$(PIP) install --group release
	@touch $@

clean:
	rm -rf build dist src/lastout/_bin .venv .pytest_cache .mypy_cache .ruff_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
