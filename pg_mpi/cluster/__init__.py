"""The machines: the MPI world, its threads, signals and launchers."""
