# shellcheck shell=bash disable=SC2034
# jobs/site.sh for ARCHER2 (HPE Cray EX, SLURM, Cray MPICH). Not run there.
# Source: docs.archer2.ac.uk, user guide: "Running jobs on ARCHER2" and "Using Python", read in November 2026.
#
#   cp jobs/sites/archer2.sh jobs/site.sh
#   sbatch -A BUDGET -p standard -q standard -N 4 --ntasks-per-node=128 --time=12:00:00 jobs/train.slurm --total-timesteps 2e9
#
# Compute nodes see /work and not /home: clone the repository there. An environment with Cray's mpi4py, which must be 4.0 or newer:
#   module load cray-python && python -m venv --system-site-packages .venv
#   .venv/bin/pip install ale-py gymnasium scipy threadpoolctl && .venv/bin/pip install --no-deps -e .
module load cray-python
PG_MPI_LAUNCHER="srun --hint=nomultithread --distribution=block:block"
export SLURM_CPU_FREQ_REQ=2250000  # the default frequency of a job is lower
