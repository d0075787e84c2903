# shellcheck shell=bash disable=SC2034,SC2154
# SLURM's part of what common.sh asks for.

ranks=${SLURM_NTASKS:-1}
id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
id=${id:-$SLURM_JOB_ID}

# An srun whose processes find each other, in two of them on one node; else mpirun.
choose_launcher() {
    local pmi two='import sys; from mpi4py import MPI; sys.exit(MPI.COMM_WORLD.size != 2)'
    [ "$launcher" = auto ] || return 0
    for pmi in pmix pmi2; do
        if timeout 60 srun --mpi="$pmi" --nodes=1 --ntasks=2 --cpus-per-task=1 --overcommit --overlap \
            "$python" -c "$two" >/dev/null 2>&1; then
            launcher="srun --mpi=$pmi"
            return 0
        fi
    done
    launcher=mpirun
}

time_limit() {
    local limit
    limit=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%l) || return
    read -r limit <<<"$limit"
    echo "$limit"
}

# SLURM ends this script when it requeues the job; until then it waits.
run_again() {
    if scontrol requeue "$id"; then
        trap - TERM
        sleep 60 &
        wait
    else
        say "could not requeue: submit the same command again"
    fi
}

# Copy a file to every node's own disk; where each node finds it.
to_all_nodes() { sbcast --force "$1" "$2" && echo "$2"; }
