# shellcheck shell=bash
# What the job scripts share; each sources it. Settings, from jobs/site.sh or the environment:
#
#   PG_MPI_HOME      the checkout (default: the folder that the job was submitted from)
#   PG_MPI_PYTHON    its Python (default: .venv/bin/python in it)
#   PG_MPI_LAUNCHER  auto, mpirun, or an srun with its options (default: auto, an srun that gives one world, or mpirun)
#   PG_MPI_LEAD      seconds before the job's end at which the trainer stops with a checkpoint (default: 60)
#   PG_MPI_STALLS    starts in a row without progress after which a job no longer requeues itself (default: 3)
#   DOCTOR=1         examine the launch first, and do not train on one that is not sane
#
# A script that sources this has set its trap already: a signal can come before anything else has run.

FINISHED=0 USAGE=2 AGAIN=75

home=${PG_MPI_HOME:-${SLURM_SUBMIT_DIR:-$PWD}}
# shellcheck source=/dev/null
if [ -f "$home/jobs/site.sh" ]; then . "$home/jobs/site.sh"; fi
python=${PG_MPI_PYTHON:-$home/.venv/bin/python}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
export MKL_NUM_THREADS=${MKL_NUM_THREADS:-1} PMIX_SECURITY_MODE=${PMIX_SECURITY_MODE:-native}
export PYTHONPATH=$home${PYTHONPATH:+:$PYTHONPATH}
asked=${asked:-} child='' lead=${PG_MPI_LEAD:-60}

say() { echo "pg_mpi job: $*"; }
fail() { echo "pg_mpi job: error: $*" >&2; exit "$USAGE"; }

[ -x "$python" ] || fail "no Python at $python: run make train once in $home, or set PG_MPI_PYTHON in jobs/site.sh"

# The trainer checkpoints and stops on USR1: mpirun, srun and our launcher all pass it on to the ranks.
stop() {
    asked=1
    if [ -n "$child" ]; then kill -USR1 "$child" 2>/dev/null; fi
}
trap stop USR1 TERM INT

# An srun whose processes find each other, in two of them on one node; else mpirun.
choose_launcher() {
    launcher=${PG_MPI_LAUNCHER:-auto}
    [ "$launcher" = auto ] || return 0
    launcher=mpirun
    command -v srun >/dev/null || return 0
    local two='import sys; from mpi4py import MPI; sys.exit(MPI.COMM_WORLD.size != 2)'
    for pmi in pmix pmi2; do
        if timeout 60 srun --mpi="$pmi" --nodes=1 --ntasks=2 --cpus-per-task=1 --overcommit --overlap \
            "$python" -c "$two" >/dev/null 2>&1; then
            launcher="srun --mpi=$pmi"
            return 0
        fi
    done
}

# Run a module of ours on all ranks of the job; its exit code. Waits on when a signal ends the waiting.
on_all_ranks() {
    local words
    if [ "$launcher" = mpirun ]; then
        words=("$python" -m pg_mpi.cluster.launch -n "$ranks" --)
    else
        read -ra words <<<"$launcher"
        words+=(--ntasks="$ranks" --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "$python" -m)
    fi
    "${words[@]}" "$@" &
    child=$!
    if [ -n "$asked" ]; then sleep 3; kill -USR1 "$child" 2>/dev/null; fi  # asked while there was nobody to tell
    local code=0
    while wait "$child"; code=$?; kill -0 "$child" 2>/dev/null; do :; done
    child=''
    return "$code"
}

# [DAYS-]HH:MM:SS or MM:SS, as schedulers write it, in seconds; nothing for any other word.
seconds() {
    local days=0 clock=$1 total=0 part
    [[ $1 =~ ^([0-9]+-)?[0-9]+(:[0-9]+){1,2}$ ]] || return 0
    case $1 in *-*) days=${1%%-*} clock=${1#*-} ;; esac
    for part in ${clock//:/ }; do total=$((total * 60 + 10#$part)); done
    echo $((10#$days * 86400 + total))
}

newest() { find "$1/checkpoints" -name 'step-*.npz' 2>/dev/null | sort | tail -n 1; }

# Train with the script's own arguments, then finish, give up, or ask to be run again (`run_again`, of the script).
train() {
    local folder before code stalls=0
    folder=$("$python" -m pg_mpi.config "$@") || exit "$USAGE"
    choose_launcher
    say "$ranks ranks by $launcher, run folder $folder"
    if [ "${DOCTOR:-0}" = 1 ] && ! on_all_ranks pg_mpi.doctor --strict && [ -z "$asked" ]; then
        fail "this launch is not sane, see above"
    fi
    before=$(newest "$folder")
    if [ -n "$asked" ]; then
        say "asked to stop before it had begun"
        run_again
        exit "$AGAIN"
    fi
    local left words=()
    left=$(seconds_left)
    if [ -n "$left" ]; then words=(--max-walltime $((left > 2 * lead ? left - lead : (left + 1) / 2))); fi
    on_all_ranks pg_mpi.train "${words[@]}" "$@"  # a limit among the arguments counts, for it comes last
    code=$?
    if [ -e "$folder/DONE" ] && [ "$code" = "$FINISHED" ]; then say "finished"; exit "$FINISHED"; fi
    if [ "$code" = "$USAGE" ]; then exit "$USAGE"; fi
    if [ "$(newest "$folder")" = "$before" ]; then
        stalls=$(($(cat "$folder/stalls" 2>/dev/null || echo 0) + 1))
        if [ "$stalls" -ge "${PG_MPI_STALLS:-3}" ]; then
            rm -f "$folder/stalls"
            say "the trainer ended with $code, and $stalls starts in a row made no progress: stopped for good"
            exit 1
        fi
    fi
    mkdir -p "$folder" && echo "$stalls" >"$folder/stalls"
    say "the trainer ended with $code: this job runs again and goes on from $(basename "$(newest "$folder")")"
    run_again
    exit "$AGAIN"
}
