# shellcheck shell=bash disable=SC2034
# jobs/site.sh for the CPU nodes of LUMI (HPE Cray EX, SLURM, Cray MPICH). Not run there.
# Source: docs.lumi-supercomputer.eu, "Slurm quickstart", "LUMI-C example batch scripts" and "Installing Python packages",
# read in November 2026.
#
#   cp jobs/sites/lumi.sh jobs/site.sh
#   sbatch -A PROJECT -p standard -N 4 --ntasks-per-node=128 --time=12:00:00 jobs/train.slurm --total-timesteps 2e9
#
# Environment with Cray's mpi4py: as in archer2.sh.
# Many small files slow Lustre down for all: the environment is packed into one file and started from memory (/tmp is one).
module load cray-python
PG_MPI_STAGE=/tmp
PG_MPI_LAUNCHER=srun
