"""Make the modules of ``tests/`` importable from every test folder."""

import os
import re
import sys
from pathlib import Path

from hypothesis import settings

import pg_mpi  # noqa: F401 - one BLAS thread, if numpy loads later

sys.path.insert(0, str(Path(__file__).parent))

# Open MPI's libfabric transport sleeps for a second at start-up, and only one-sided communication uses it.
os.environ.setdefault("OMPI_MCA_btl", "^ofi")

# Concurrent jobs would each bind their ranks to the first cores, and wait in a busy loop.
if "PYTEST_XDIST_WORKER" in os.environ:
    for name in ("PRTE_MCA_hwloc_default_binding_policy", "OMPI_MCA_hwloc_base_binding_policy"):
        os.environ.setdefault(name, "none")
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")

settings.register_profile("repeatable", derandomize=True)  # for new examples: --hypothesis-profile default
settings.load_profile("repeatable")


def pytest_terminal_summary(terminalreporter, config):
    """Name the targets that run what ``make test`` leaves out."""
    if left := re.findall(r"not (\w+)", config.option.markexpr):
        terminalreporter.write_line("left out: " + ", ".join(f"make test-{name}" for name in left))
