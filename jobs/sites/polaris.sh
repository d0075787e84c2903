# shellcheck shell=bash disable=SC2034
# jobs/site.sh for Polaris (HPE Apollo, PBS Pro, PALS, Cray MPICH). Not run there.
# Source: docs.alcf.anl.gov, Polaris: "Running Jobs", read in November 2026.
#
#   cp jobs/sites/polaris.sh jobs/site.sh
#   ARGS="--total-timesteps 2e9" qsub -V -A PROJECT -q prod \
#     -l select=10:ncpus=64:mpiprocs=32,place=scatter,walltime=03:00:00,filesystems=home:eagle jobs/train.pbs
#
# A node has 32 cores with two threads each. Its other resource, four GPUs, is not used.
# Environment with Cray's mpi4py: as in archer2.sh, with the site's Python module.
PG_MPI_LAUNCHER="mpiexec --ppn 32 --depth 1 --cpu-bind depth"
