"""``python -m pg_mpi.mpi.launch``: see ``launcher``."""

import io
import sys

from pg_mpi.mpi.launch.launcher import main

if __name__ == "__main__":
    code = main()
    for name in ("stdout", "stderr"):
        try:
            print(end="", file=getattr(sys, name), flush=True)
        except OSError:  # its reader has ended. Python would try again at exit, and exit with 120
            setattr(sys, name, io.StringIO())
    sys.exit(code)
