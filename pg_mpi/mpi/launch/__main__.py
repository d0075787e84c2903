"""``python -m pg_mpi.mpi.launch``: see ``launcher``."""

import sys

from pg_mpi.mpi.launch.launcher import main

if __name__ == "__main__":
    sys.exit(main())
