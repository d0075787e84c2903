# shellcheck shell=bash disable=SC2154
# What all job scripts share. docs/reference/environment.md lists the settings, from jobs/site.sh or from the environment.
#
# A script sets `home` and its first traps before it sources this: a signal can come at any time. It also sources the part of
# its batch system (slurm.sh, pbs.sh, sge.sh, lsf.sh, flux.sh), which sets `ranks` and `id`, and defines `time_limit`,
# `run_again` and, where they differ from those below, `choose_launcher` and `to_all_nodes`.

: "${home:?must be set before common.sh is sourced}"
FINISHED=0 USAGE=2 AGAIN=75

# shellcheck source=/dev/null
if [ -f "$home/jobs/site.sh" ]; then . "$home/jobs/site.sh"; fi
python=${PG_MPI_PYTHON:-$home/.venv/bin/python}
export PMIX_SECURITY_MODE=${PMIX_SECURITY_MODE:-native}
case :${PYTHONPATH:-}: in *:"$home":*) ;; *) export PYTHONPATH=$home${PYTHONPATH:+:$PYTHONPATH} ;; esac
asked=${asked:-} child='' deaf='' staged='' unstaged='' launcher=${PG_MPI_LAUNCHER:-auto} lead=${PG_MPI_LEAD:-60}

say() { echo "pg_mpi job: $*"; }
fail() { echo "pg_mpi job: error: $*" >&2; exit "$USAGE"; }

[ -x "$python" ] || fail "no Python at $python: run make setup once in $home, or set PG_MPI_PYTHON in jobs/site.sh"

# The trainer checkpoints and stops on USR1: mpirun, srun and our launcher all pass it on to the ranks. A TERM stays one,
# whatever follows: it may mean that this job was cancelled.
stop() {
    [ "$asked" = TERM ] || asked=$1
    if [ -n "$child" ] && [ -z "$deaf" ]; then kill -USR1 "$child" 2>/dev/null; fi
}
trap 'stop USR1' USR1
trap 'stop TERM' TERM INT  # LSF's bkill sends INT first

# Split a line into `words` as a shell does, quotes included, but evaluate nothing in it.
split() {
    local lines
    words=()
    lines=$(xargs -r printf '%s\n' <<<"$1") || fail "a quote is not closed in: $1"
    if [ -n "$lines" ]; then mapfile -t words <<<"$lines"; fi
}

# Run a command beside this script, which passes USR1 on to it; its exit code. Waits on when a signal ends the waiting.
run() {
    local code=0 own
    "$@" &
    child=$!
    if [ -n "$asked" ] && [ -z "$deaf" ]; then sleep 3; kill -USR1 "$child" 2>/dev/null; fi  # it came before the child started
    while wait "$child"; code=$?; kill -0 "$child" 2>/dev/null; do :; done
    if [ "$code" -gt 128 ]; then  # perhaps of a signal to this script: ask again for the command's own
        wait "$child" 2>/dev/null
        own=$?
        if [ "$own" != 127 ]; then code=$own; fi
    fi
    child=''
    return "$code"
}

# Run a module of ours on all ranks of the job. What each launcher must be told is known in pg_mpi/mpi/launch/mpirun.py.
# `bound`: a command before it, as timeout.
# shellcheck disable=SC2086  # several words, or none
on_all_ranks() { run ${bound:-} "$python" -m pg_mpi.mpi.launch --launcher "$launcher" -n "$ranks" -- "$@"; }

# [DAYS-]HH:MM:SS, MM:SS or seconds, as schedulers write it, in seconds; nothing for any other word.
seconds() {
    local days=0 clock=$1 total=0 part
    [[ $1 =~ ^([0-9]+|([0-9]+-)?[0-9]+(:[0-9]+){1,2})$ ]] || return 0
    case $1 in *-*) days=${1%%-*} clock=${1#*-} ;; esac
    for part in ${clock//:/ }; do total=$((total * 60 + 10#$part)); done
    echo $((10#$days * 86400 + total))
}

# shellcheck source=jobs/stage.sh
. "$home/jobs/stage.sh"

# Seconds until the job's time is over; nothing where it has no limit. The system tells the limit, bash the time since.
seconds_left() {
    local limit
    limit=$(time_limit) || say "this job's time limit cannot be asked for: give --max-walltime" >&2
    limit=$(seconds "$limit")
    if [ -n "$limit" ]; then echo $((limit > SECONDS ? limit - SECONDS : 1)); fi
}

# Many systems start one script on one node: the ranks are mpirun's, which reads the nodes from the environment.
choose_launcher() { if [ "$launcher" = auto ]; then launcher=mpirun; fi; }

# The first of several launchers whose processes find each other, in two of them, else mpirun. $1: options that start two
# processes; then the launchers.
first_that_connects() {
    local options=$1 two='import sys; from mpi4py import MPI; sys.exit(MPI.COMM_WORLD.size != 2)'
    [ "$launcher" = auto ] || return 0
    shift
    for launcher in "$@"; do
        # shellcheck disable=SC2086  # each is several words
        if timeout 60 $launcher $options "$python" -c "$two" >/dev/null 2>&1; then return 0; fi
    done
    launcher=mpirun
}

# Copy a file to every node; where each node finds it. The submission folder is seen from every node.
to_all_nodes() { echo "$1"; }

# Submit the next start by the command given, which prints its name.
submit_next() {
    local name
    if name=$("$@"); then
        say "the next start is $name"
    else
        say "could not submit the next start: submit the same command again"
    fi
}

# The batch system ends this script when it requeues the job.
await_requeue() {
    trap - TERM
    sleep 60 &
    wait
}

# Every checkpoint of a run, or of a study's trials, the oldest first.
saved() { find -H "$1" -name 'step-*.npz' 2>/dev/null | sort; }

# Choose a launcher, stage the environment and run the doctor, the last two on request.
prepare() {
    choose_launcher
    say "$ranks ranks by $launcher$1"
    if [ -n "${PG_MPI_STAGE:-}" ]; then
        stage || [ -n "$asked" ] || fail "no environment in $PG_MPI_STAGE of every node, see above: unset PG_MPI_STAGE"
    fi
    if [ "${DOCTOR:-0}" = 1 ] && ! on_all_ranks pg_mpi.doctor --strict && [ -z "$asked" ]; then
        unstage
        fail "this launch is not sane, see above"
    fi
}

# Ask to be run again and end, unless too many starts in a row made no progress. $1: a folder to count them in; $2: yes or
# no, whether this one did. A job that was ended before its time (cancelled, preempted, requeued) does not ask: its owner
# or the batch system decides.
go_on_later() {
    local left stalls=0 count=$1/stalls
    if [ "$module" = pg_mpi.tune ]; then count+=-$id; fi  # the tasks of a study have one folder
    if [ "$2" = no ]; then
        read -r stalls 2>/dev/null <"$count"
        [[ $stalls =~ ^[0-9]{1,9}$ ]] || stalls=0  # arithmetic would run a command that the file holds
        stalls=$((10#$stalls + 1))
    fi
    if [ "$stalls" -ge "${PG_MPI_STALLS:-3}" ]; then
        rm -f "$count"
        say "$stalls starts in a row made no progress: stopped for good"
        exit 1
    fi
    if ! { mkdir -p "$1" && echo "$stalls" >"$count"; } && [ "$2" = no ]; then
        say "starts without progress cannot be counted in $1, so this was the last: fix that and submit the same command"
        exit 1
    fi
    left=$(seconds_left)
    if [ "$asked" = TERM ] && [ "${left:-$((lead + 1))}" -gt "$lead" ]; then
        say "ended from outside before its time: run the same command again to resume"
    else
        run_again
    fi
    exit "$AGAIN"
}

# Train with the arguments given, then finish, give up, or ask to be run again.
train() {
    local folder
    folder=$("$python" -m pg_mpi.config.command_line "$@") || exit
    until_done "$folder" pg_mpi.train "$@"
}

# Play trials of a study until none is left that nobody plays, or ask to be run again.
study() {
    STUDY=${STUDY:-tune.journal}
    case " $* " in *" --study"* | *" --space"*) fail "give the study as STUDY and its space as SPACE, not as flags" ;; esac
    until_done "${STUDY%.journal}.trials" pg_mpi.tune --space "$SPACE" --study "$STUDY" "$@"
}

# Run a module of ours with a walltime, which works in a folder and marks it DONE. $1: the folder, $2: the module.
until_done() {
    local folder=$1 module=$2 before code left words=() progress=yes
    shift 2
    prepare ", run folder $folder"
    before=$(saved "$folder")
    if [ -n "$asked" ]; then
        say "asked to stop before it had begun"
        unstage
        go_on_later "$folder" no
    fi
    left=$(seconds_left)
    if [ -n "$left" ]; then words=(--max-walltime $((left > 2 * lead ? left - lead : (left + 1) / 2))); fi
    on_all_ranks "$module" "${words[@]}" "$@"  # a limit among the arguments counts, for it comes last
    code=$?
    unstage
    if [ -e "$folder/DONE" ] && [ "$code" = "$FINISHED" ]; then say "finished"; exit "$FINISHED"; fi
    if [ "$code" = "$USAGE" ]; then exit "$USAGE"; fi
    if [ "$module" = pg_mpi.tune ] && [ "$code" = "$FINISHED" ]; then say "no trial is left"; exit "$FINISHED"; fi
    if [ "$(saved "$folder")" = "$before" ]; then progress=no; fi
    if [ "$module" = pg_mpi.tune ] && [ "$code" != "$AGAIN" ]; then progress=no; fi  # what is new may be another task's
    say "$module ended with exit code $code: the next start resumes from $(basename "$(saved "$folder" | tail -n 1)")"
    go_on_later "$folder" "$progress"
}

# Measure steps/s on 1, 2, 4 ... and all ranks. A sweep that was stopped measures what is missing when it is run again.
sweep() {
    local counts='' n code before module=scaling.sweep progress=yes
    export PG_MPI_SWEEP=${PG_MPI_SWEEP:-runs/sweep-$id}  # a successor has another id
    for ((n = 1; n < ranks; n *= 2)); do counts+=$n,; done
    prepare ", results in $PG_MPI_SWEEP"
    before=$(find -H "$PG_MPI_SWEEP" -name 'ranks-*.json' 2>/dev/null)
    run "$python" -m "$module" --ranks "$counts$ranks" --launcher "$launcher" --out "$PG_MPI_SWEEP" "$@"
    code=$?
    unstage
    if [ -n "$asked" ]; then
        if [ "$(find -H "$PG_MPI_SWEEP" -name 'ranks-*.json' 2>/dev/null)" = "$before" ]; then progress=no; fi
        go_on_later "$PG_MPI_SWEEP" "$progress"
    fi
    exit "$code"
}
