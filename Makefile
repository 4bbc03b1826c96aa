# `make` lists the targets. Every target sets up .venv by itself; PYTHON=... uses an environment as
# it is instead.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help test slow grade verify stubs check fix

# makes .venv; name another one where python3 is older than 3.11
PYTHON3 ?= python3
# passed on to the program; of `make test`, to the tests of assignment and reference
ARGS ?=
# a folder of <problem>.py files, or "reference": the staff solutions
SUBMISSION ?= assignment
# passed on to pip install
PIP_ARGS ?=

READY := .venv/.ready

ifdef PYTHON
PY := $(PYTHON)
SETUP :=
else
PY := .venv/bin/python
SETUP := $(READY)
endif

help:
	@echo "make test                        test the stubs, the staff solutions and the harness"
	@echo "make test SUBMISSION=folder      test that one alone: a folder of <problem>.py files, or reference"
	@echo "make test DIRECT=1               the code in pytest's own process: breakpoint() works, limits don't"
	@echo "make grade SUBMISSION=reference  grade the staff solutions; without SUBMISSION: assignment/"
	@echo "make verify                      is the assignment sound? (stubs score 0, wrong solutions are caught)"
	@echo "make slow                        the slow tests of the harness"
	@echo "make stubs                       write assignment/ from reference/"
	@echo "make check                       format, lint, types, stale stubs; changes nothing"
	@echo "make fix                         format, and repair what the linter can"
	@echo
	@echo "ARGS='...'                       is passed on: make grade ARGS='--problem softmax'"
	@echo "PYTHON=python3                   use that environment as it is, no .venv (GPU machines)"
	@echo "PYTHON3=python3.12               make .venv with that Python (needs 3.11 or newer)"

# pytest ends with 5 when ARGS selects no test: nothing to run is no failure then
test: $(SETUP)
ifdef DIRECT
	$(PY) -m pytest tests/submission --submission "$(SUBMISSION)" --direct -rfE $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])
else ifneq ($(filter command environment,$(firstword $(origin SUBMISSION))),)
	$(PY) -m pytest tests/submission --submission "$(SUBMISSION)" -rfE $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])
else
	$(PY) -m pytest tests/submission --submission assignment -rfE $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])
	$(PY) -m pytest tests/submission --submission reference -rfE $(ARGS) $(if $(ARGS),|| [ $$? -eq 5 ])
	$(PY) -m pytest -m "not slow and not gpu"
endif

# whole gradings of broken code, interruptions, made-up benchmarks: minutes
slow: $(SETUP)
	$(PY) -m pytest tests/grader -m "slow and not gpu" $(ARGS)

grade: $(SETUP)
	$(if $(DIRECT),$(error DIRECT=1 is for debugging, never for marks: make test DIRECT=1))
	$(PY) -m grader grade "$(SUBMISSION)" $(ARGS)

verify: $(SETUP)
	$(PY) -m grader verify $(ARGS)

stubs: $(SETUP)
	$(PY) -m grader stubs $(ARGS)

check: $(SETUP)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m grader stubs --check

fix: $(SETUP)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

# Installs what pyproject.toml names, at the versions of constraints.txt; the repository itself is
# run from its root, not installed. The stamp is written last, so an interrupted set-up starts over:
# .venv is thrown away only if the file "unfinished" says that we were making it, never one made by hand.
# The lock (where flock exists) is for two makes at once; the kernel drops it if make is killed.
define WANTED
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["dependencies"], *project["optional-dependencies"]["dev"], sep="\n")
endef
export WANTED

$(READY): pyproject.toml constraints.txt
	@set -e -o pipefail; \
	if command -v flock >/dev/null; then exec 9<Makefile; flock 9; fi; \
	if [ $@ -nt pyproject.toml ] && [ $@ -nt constraints.txt ]; then exit 0; fi; \
	rm -f $@; \
	if [ -e .venv/unfinished ]; then echo "The last set-up of .venv was interrupted; starting over."; rm -rf .venv; fi; \
	base=.venv/bin/python; [ -x $$base ] || base="$(PYTHON3)"; \
	command -v $$base >/dev/null || { \
		echo "make: no $$base here. Python 3.11 or newer is needed; name one: make PYTHON3=python3.12" >&2; exit 2; }; \
	$$base -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make: $$base is $$($$base -V 2>&1), but Python 3.11 or newer is needed;" \
			"name one: make PYTHON3=python3.12 (and remove .venv if it is there)" >&2; exit 2; }; \
	if [ ! -x .venv/bin/python ]; then \
		echo "Setting up .venv with $$($$base -V), once (torch is a large download)"; \
		mkdir -p .venv; touch .venv/unfinished; \
		$$base -m venv .venv || { \
			echo "make: $$base cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }; \
	else echo "Bringing .venv up to date with pyproject.toml and constraints.txt"; fi; \
	.venv/bin/python -c "$$WANTED" >.venv/wanted.txt; \
	.venv/bin/python -m pip install --disable-pip-version-check --progress-bar off \
		-c constraints.txt -r .venv/wanted.txt $(PIP_ARGS) \
		| sed -u -n -e 's/^ *Downloading \(.* MB)\)/  downloading \1/p' \
			-e 's/^Processing [^ ]*\/\([^ ]*whl\).*/  from disk \1/p' \
			-e 's/^Installing collected.*/  installing/p'; \
	rm -f .venv/unfinished; \
	touch $@
