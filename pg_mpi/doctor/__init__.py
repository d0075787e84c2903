"""Check what a launch runs on: ``python -m pg_mpi.doctor``."""
