"""Start an MPI job: which mpirun, how many ranks on which nodes. The standard library alone."""
