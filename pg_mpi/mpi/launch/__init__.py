"""Start an MPI job: which mpirun, how many ranks on which nodes. Standard library only."""
