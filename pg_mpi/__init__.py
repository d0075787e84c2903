"""pg_mpi: policy gradients on many CPU cores, over MPI.

Importing the package sets one BLAS/OpenMP thread per process, before numpy loads: with one rank per core, a second
thread slows another rank's emulator. Thread counts that are already set are kept. ``OMP_NUM_THREADS`` applies to every
library. Importing never starts MPI.
"""

import os
import time

__version__ = "1.0.0"

#: Monotonic clock when the package was imported, in seconds; ``wall_s`` counts from it.
STARTED = time.monotonic()

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")

for _name in THREAD_VARIABLES:
    os.environ.setdefault(_name, os.environ.get("OMP_NUM_THREADS", "1"))
