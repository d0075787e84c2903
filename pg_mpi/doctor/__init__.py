"""What a launch really runs on, and whether it is sane: ``python -m pg_mpi.doctor``."""
