# shellcheck shell=bash disable=SC2034,SC2154
# Start Python from each node's own disk: a thousand ranks that import from a shared file system wait for it for
# minutes. PG_MPI_STAGE names the folder there. What a run needs of the environment and our code are packed into one file,
# which goes to every node (sbcast under SLURM; under PBS each node reads it from the submission folder) and is unpacked
# there once.

stage() {
    local name pack seen
    case $launcher in jsrun*) say "with jsrun this script's node has no ranks: nothing can be staged there"; return 1 ;; esac
    "$python" -c 'import sys; sys.exit(sys.prefix == sys.base_prefix)' || {
        say "$python is not in a virtual environment: only one can be staged"
        return 1
    }
    name=pg_mpi-$id-$(od -An -N8 -tx1 /dev/urandom | tr -d ' ')  # of this start alone, and unpredictable
    given_commit=${PG_MPI_COMMIT:-}
    PG_MPI_COMMIT=$("$python" -c 'from pg_mpi.files.provenance import commit_of_source as c; print(c() or "")') || return
    export PG_MPI_COMMIT
    pack=$PWD/$name.tar unstaged=$python unstaged_path=$PYTHONPATH staged=$PG_MPI_STAGE/$name
    if "$python" -m jobs.pack "$pack" "$home" && seen=$(to_all_nodes "$pack" "$staged.tar"); then
        on_all_ranks jobs.unpack "$seen" "$staged"
    else
        false
    fi
    local code=$?
    rm -f "$pack"
    if [ "$code" != 0 ]; then unstage; return "$code"; fi
    python=$staged/bin/python
    PYTHONPATH=$staged:$PYTHONPATH
    say "the environment is on every node's own disk, $SECONDS s after the start: $staged"
}

# Remove the staged environment, once. It may take half of the time that is left: the job must still ask to be run again.
unstage() {
    local deaf=1 left folder=$staged
    [ -n "$folder" ] || return 0
    staged=''
    left=$(seconds_left)
    python=$unstaged PYTHONPATH=$unstaged_path
    # a successor inherits the environment, and the source may have changed by then
    if [ -n "$given_commit" ]; then PG_MPI_COMMIT=$given_commit; else unset PG_MPI_COMMIT; fi
    bound="timeout -k 5 $(((${left:-600} + 1) / 2))" on_all_ranks jobs.unpack --remove "$folder" ||
        say "$folder may remain on some nodes"
}
