# shellcheck shell=bash disable=SC2034,SC2154
# The part of PBS (PBS Pro, OpenPBS, Torque) in what common.sh asks for.

cd "$PBS_O_WORKDIR" || exit 2  # PBS starts a job in the home folder
[ -f "${PBS_NODEFILE:-}" ] || fail "no PBS_NODEFILE: submit this script with qsub"
id=${PBS_JOBID%%.*}

# This job's attributes as the server knows them, NAME = VALUE. Long ones come in pieces.
attributes() {
    local job
    job=$(qstat -f "$PBS_JOBID") || return
    awk '/^[ \t]+[A-Za-z0-9_.-]+ = / { if (line) print line; line = $0; sub(/^[ \t]+/, "", line); next }
        line && /^\t/ { sub(/^\t/, ""); line = line $0 }
        END { print line }' <<<"$job"
}
known=$(attributes 2>/dev/null)  # once: the server may not answer when the job ends
attribute() {
    [ -n "$known" ] || known=$(attributes) || return
    sed -n "s/^$1 = //p" <<<"$known"
}

# PBS_NODEFILE has a line for each rank if the chunks have mpiprocs, or a single line for each chunk. Then: a rank for each
# core of a chunk. PBS sets OMP_NUM_THREADS to a chunk's cores too, where ompthreads is not given.
select=$(attribute Resource_List.select 2>/dev/null)
if [[ -n $select && $select != *ompthreads=* ]]; then export OMP_NUM_THREADS=1; fi
if [[ $select == *ncpus=* && $select != *mpiprocs=* ]]; then
    lines=$(awk -v select="$select" '
        BEGIN { chunks = split(select, part, "+"); for (c = 1; c <= chunks; c++) {
            count = part[c] + 0 ? part[c] + 0 : 1; cores = 1
            if (match(part[c], /ncpus=[0-9]+/)) cores = substr(part[c], RSTART + 6, RLENGTH - 6)
            for (n = 0; n < count; n++) ranks[++known] = cores } }
        { for (n = 0; n < (NR in ranks ? ranks[NR] : 1); n++) print }' "$PBS_NODEFILE")
    PBS_NODEFILE=$(mktemp) || fail "no temporary file for the list of nodes: see above"
    export PBS_NODEFILE
    trap 'rm -f "$PBS_NODEFILE"' EXIT
    echo "$lines" >"$PBS_NODEFILE"
    say "no mpiprocs was given: a rank for each core of the chunks"
fi
ranks=$(wc -l <"$PBS_NODEFILE")

time_limit() { attribute Resource_List.walltime; }

# The resources that this job was given, as qsub -l takes them. PBS derives others from select, and refuses them beside it;
# Torque has no select, but nodes.
resources() {
    local names='[^ ]+'
    if [ -n "$(attribute Resource_List.select)" ]; then names='select|place|walltime|filesystems'; fi
    sed -nE "s/^Resource_List\.($names) = /\1=/p" <<<"$known" | grep -vE '^(nodect|neednodes)=' | paste -sd, -
}

# Submit this script's next start, which waits until this one has ended.
run_again() {
    local given queue account project more
    [ -n "$known" ] || known=$(attributes) || {
        say "this job's resources cannot be asked for: submit the same command again"
        return
    }
    given=$(resources) account=$(attribute Account_Name) project=$(attribute project)
    if [ "$project" = _pbs_project_default ]; then project=''; fi
    queue=${PBS_O_QUEUE:-${PBS_QUEUE:-}}  # where it was submitted to: that may lead to queues that take no jobs themselves
    read -ra more <<<"${PG_MPI_QSUB:-}"
    submit_next qsub -V -N "${PBS_JOBNAME:-pg_mpi}" -W "depend=afterany:$PBS_JOBID" ${given:+-l "$given"} \
        ${queue:+-q "$queue"} ${account:+-A "$account"} ${project:+-P "$project"} "${more[@]}" "$script"
}
