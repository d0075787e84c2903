# shellcheck shell=bash disable=SC2034,SC2154
# Flux's part of what common.sh asks for. The script runs within an instance of its own, which has the job's resources.

ranks=$(flux resource list --no-header --format='{ncores}' --states=up | awk '{ sum += $1 } END { print sum }')
id=$(flux getattr jobid)

# A flux run whose processes find each other, in two of them: by Flux's own PMI, as MPICH does, or by PMIx, as Open MPI.
choose_launcher() {
    local option two='import sys; from mpi4py import MPI; sys.exit(MPI.COMM_WORLD.size != 2)'
    [ "$launcher" = auto ] || return 0
    for option in '' '-o pmi=pmix'; do
        # shellcheck disable=SC2086  # two words, or none
        if timeout 60 flux run $option --ntasks=2 "$python" -c "$two" >/dev/null 2>&1; then
            launcher="flux run${option:+ $option}"
            return 0
        fi
    done
    launcher=mpirun
}

# As MINUTES:SECONDS. Flux tells the seconds that are left, as 3599.5 or inf.
time_limit() {
    local left
    left=$(flux job timeleft) || return
    left=${left%.*}
    if [[ $left =~ ^[0-9]+$ ]]; then left=$((left + SECONDS)); echo "$((left / 60)):$((left % 60))"; fi
}
limit=$(seconds "$(time_limit)")

# Submit this script's next start, which waits until this one has ended.
run_again() {
    local new
    if new=$(flux --parent batch --dependency="afterany:$id" --nslots="$ranks" --time-limit="${limit:-0}s" \
        "$script" "${arguments[@]}"); then
        say "the next start is $new"
    else
        say "could not submit the next start: submit the same command again"
    fi
}

# The submission folder is seen from every node; where each node finds a file in it.
to_all_nodes() { echo "$1"; }
