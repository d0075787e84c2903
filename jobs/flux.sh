# shellcheck shell=bash disable=SC2034,SC2154
# Flux's part of what common.sh asks for. The script runs within an instance of its own, which has the job's resources.

ranks=$(flux resource list --no-header --format='{ncores}' --states=up | awk '{ sum += $1 } END { print sum }')
id=$(flux getattr jobid)

# By Flux's own PMI, as MPICH does, or by PMIx, as Open MPI.
choose_launcher() { first_that_connects --ntasks=2 'flux run' 'flux run -o pmi=pmix'; }

# Flux tells the seconds that are left, as 3599.5 or inf.
time_limit() {
    local left
    left=$(flux job timeleft) || return
    left=${left%.*}
    if [[ $left =~ ^[0-9]+$ ]]; then echo $((left + SECONDS)); fi
}
limit=$(time_limit)

# Submit this script's next start, which waits until this one has ended.
run_again() {
    submit_next flux --parent batch --dependency="afterany:$id" --nslots="$ranks" --time-limit="${limit:-0}s" \
        "$script" "${arguments[@]}"
}
