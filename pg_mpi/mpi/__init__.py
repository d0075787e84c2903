"""MPI: the communicator, signals, pinning, the watchdog and the launcher. The only importer of mpi4py."""
