# shellcheck shell=bash
# What the SLURM scripts share beside common.sh: how many ranks, how much time is left, and how to run again.

ranks=${SLURM_NTASKS:-1}
id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
id=${id:-$SLURM_JOB_ID}

# Seconds until the job's time is over; nothing where it has no limit.
seconds_left() { seconds "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%L | head -n 1 | tr -d ' ')"; }

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
