# shellcheck shell=bash disable=SC2034,SC2154
# SLURM's part of what common.sh asks for.

# Newer SLURM sets SLURM_NTASKS only if it was asked for. With --export=NONE ranks lack this script's environment.
ranks=${SLURM_NTASKS:-$((${SLURM_JOB_NUM_NODES:-1} * ${SLURM_NTASKS_PER_NODE:-1}))}
export SLURM_NTASKS=$ranks SLURM_EXPORT_ENV=ALL
id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
id=${id:-$SLURM_JOB_ID}

# With -N 4 alone, as with -N 4 -n 4, SLURM counts one task on each node; then each core of the allocation has a rank.
# SLURM counts hardware threads, as 256(x2),128.
if [ "$ranks" = "${SLURM_JOB_NUM_NODES:-1}" ] && [ -z "${SLURM_NTASKS_PER_NODE:-}${SLURM_CPUS_PER_TASK:-}" ]; then
    threads=$(scontrol show node "${SLURMD_NODENAME:-}" 2>/dev/null | grep -o 'ThreadsPerCore=[0-9]*' | head -n 1)
    read -r cores each < <(awk -v threads="${threads#*=}" -v RS=, '
        { split($0, part, /\(x|\)/); cores = int(part[1] / (threads + 0 ? threads : 1)); nodes = part[2] ? part[2] : 1
          sum += cores * nodes; each = each (NR > 1 ? "," : "") cores (nodes > 1 ? "(x" nodes ")" : "") }
        END { print sum, each }' <<<"${SLURM_JOB_CPUS_PER_NODE:-1}")
    if [ "${cores:-0}" -gt "$ranks" ]; then
        ranks=$cores
        say "no number of tasks per node: a rank for each of the $ranks cores of the allocation (--ntasks-per-node sets it)"
        export SLURM_NTASKS=$ranks SLURM_TASKS_PER_NODE=$each  # for mpirun
    fi
fi

# An srun as the site has set it, else with a plugin that Open MPI or MPICH knows.
choose_launcher() {
    first_that_connects '--nodes=1 --ntasks=2 --cpus-per-task=1 --overcommit --overlap' \
        srun 'srun --mpi=pmix' 'srun --mpi=pmi2'
}

time_limit() {
    local limit
    limit=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%l) || return
    read -r limit <<<"$limit"
    echo "$limit"
}

# Where SLURM refuses to requeue the job (a site may, and an operator may have forbidden it for this job), the same script
# is submitted again, with the resources of this job.
run_again() {
    local limit options=()
    if scontrol requeue "$id"; then await_requeue; return; fi
    [ -z "${SLURM_ARRAY_JOB_ID:-}" ] || { say "could not requeue: submit the task $id again"; return; }
    limit=$(time_limit)
    options=(--no-requeue --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$ranks" --job-name="$SLURM_JOB_NAME" ${limit:+--time="$limit"})
    options+=(${SLURM_NTASKS_PER_NODE:+--ntasks-per-node="$SLURM_NTASKS_PER_NODE"})
    options+=(--partition="$SLURM_JOB_PARTITION" ${SLURM_JOB_ACCOUNT:+--account="$SLURM_JOB_ACCOUNT"})
    options+=(${SLURM_JOB_QOS:+--qos="$SLURM_JOB_QOS"} ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"})
    options+=(${SLURM_MEM_PER_NODE:+--mem="$SLURM_MEM_PER_NODE"} ${SLURM_MEM_PER_CPU:+--mem-per-cpu="$SLURM_MEM_PER_CPU"})
    submit_next sbatch --parsable --dependency="afterany:$SLURM_JOB_ID" "${options[@]}" "$script" "${arguments[@]}"
}

# Copy a file to every node's own disk; where each node finds it.
to_all_nodes() { sbcast --force "$1" "$2" && echo "$2"; }
