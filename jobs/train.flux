#!/usr/bin/env bash
#flux: --job-name=pg_mpi
#flux: --output=pg_mpi-{{id}}.log
# Train, and submit the next start until it is finished:
#   flux batch -N 4 -n 512 -t 12h jobs/train.flux --total-timesteps 2e9
trap 'asked=USR1' USR1; trap 'asked=TERM' TERM
home=${PG_MPI_HOME:-$PWD}
# shellcheck source=jobs/common.sh
. "$home/jobs/common.sh" || { echo "submit from the checkout, or export PG_MPI_HOME" >&2; exit 2; }
# shellcheck source=jobs/flux.sh
. "$home/jobs/flux.sh"
script=$home/jobs/train.flux arguments=("$@")
train "$@"
