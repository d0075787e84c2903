# shellcheck shell=bash disable=SC2034,SC2154
# LSF's part of what common.sh asks for.

ranks=${LSB_DJOB_NUMPROC:-1}
id=$LSB_JOBID
if [ "${LSB_JOBINDEX:-0}" != 0 ]; then id="${LSB_JOBID}[$LSB_JOBINDEX]"; fi

# jsrun where there is one. The first line of its host file is the node of this script, which has no ranks.
choose_launcher() {
    if [ "$launcher" = auto ]; then
        launcher=mpirun
        if command -v jsrun >/dev/null; then launcher=jsrun; fi
    fi
    case $launcher in jsrun*) ranks=$(tail -n +2 "$LSB_DJOB_HOSTFILE" | wc -l) ;; esac
}

# In minutes, as 720.0; as MINUTES:SECONDS
time_limit() {
    local limit
    limit=$(bjobs -noheader -o runtimelimit "$id") || return
    if [[ $limit =~ ^[0-9]+ ]]; then echo "${BASH_REMATCH[0]}:00"; fi
}

run_again() {
    if brequeue "$id"; then await_requeue; else say "could not requeue: submit the same command again"; fi
}
