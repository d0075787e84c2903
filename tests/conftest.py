"""Makes ``tests/jobs.py`` and the oracle importable from every test folder."""

import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # jobs beside each other: each would bind its ranks to the first cores, and spin
    for name in ("PRTE_MCA_hwloc_default_binding_policy", "OMPI_MCA_hwloc_base_binding_policy"):
        os.environ.setdefault(name, "none")
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")

settings.register_profile("repeatable", derandomize=True)  # for new examples: --hypothesis-profile default
settings.load_profile("repeatable")
