# shellcheck shell=bash disable=SC2034,SC2154
# The part of PBS in what common.sh asks for.

cd "$PBS_O_WORKDIR" || exit 2  # PBS starts a job in the home folder
[ -f "${PBS_NODEFILE:-}" ] || fail "no PBS_NODEFILE: submit this script with qsub"
ranks=$(wc -l <"$PBS_NODEFILE")
id=${PBS_JOBID%%.*}

# PBS starts one script on one node: the ranks are mpirun's, which reads PBS_NODEFILE.
choose_launcher() { if [ "$launcher" = auto ]; then launcher=mpirun; fi; }

# An attribute of this job as the server knows it; nothing for one that it does not have. Long ones come in pieces.
attribute() {
    local job
    job=$(qstat -f "$PBS_JOBID") || return
    awk -v name="$1" '
        /^[ \t]+[A-Za-z_.]+ = / { found = ($1 == name); if (found) { sub(/^[^=]*= /, ""); value = $0 }; next }
        found && /^\t/ { sub(/^\t/, ""); value = value $0 }
        END { print value }' <<<"$job"
}

time_limit() { attribute Resource_List.walltime; }

# Submit this script's next start, which waits until this one has ended.
run_again() {
    local name value list='' options=() more
    for name in select place walltime; do
        value=$(attribute "Resource_List.$name")
        if [ -n "$value" ]; then list+="${list:+,}$name=$value"; fi
    done
    if [ -n "$list" ]; then options+=(-l "$list"); fi
    value=${PBS_O_QUEUE:-${PBS_QUEUE:-}}  # where it was submitted to: that may lead to queues that take no jobs themselves
    if [ -n "$value" ]; then options+=(-q "$value"); fi
    value=$(attribute Account_Name)
    if [ -n "$value" ]; then options+=(-A "$value"); fi
    read -ra more <<<"${PG_MPI_QSUB:-}"
    if value=$(qsub -V -N "${PBS_JOBNAME:-pg_mpi}" -W "depend=afterany:$PBS_JOBID" "${options[@]}" "${more[@]}" \
        "$script"); then
        say "the next start is $value"
    else
        say "could not submit the next start: submit the same command again"
    fi
}

# A file in the submission folder is seen from every node; where each node finds it.
to_all_nodes() { echo "$1"; }
