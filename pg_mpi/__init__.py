"""pg_mpi: policy gradients on many CPU cores, over MPI.

Importing the package sets one BLAS/OpenMP thread per process, before numpy can load: with one rank per
core, a second BLAS thread only takes time from another rank's emulator. A thread count that the user set
wins; one set through ``OMP_NUM_THREADS`` holds for every library. Importing never starts MPI.
"""

import os
import time

__version__ = "0.1.0"

#: Seconds on the monotonic clock when the package was imported: the start that ``wall_s`` counts from.
STARTED = time.monotonic()

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")

for _name in THREAD_VARIABLES:
    os.environ.setdefault(_name, os.environ.get("OMP_NUM_THREADS", "1"))
