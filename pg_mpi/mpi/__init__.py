"""MPI: the communicator, signals, pinning, the watchdog and the launcher. The only package that imports mpi4py."""
