"""Put an environment onto a node's own disk. The first rank there does it; others return at once.

    python -m jobs.unpack PACK FOLDER      unpack a tar file into a folder that is not there yet
    python -m jobs.unpack --remove FOLDER

``jobs/stage.sh`` runs it on all ranks of a job. No MPI, and only the standard library: it runs from the shared file
system, so it imports as little as possible.
"""

import contextlib
import os
import shutil
import stat
import subprocess
import sys


def unpack(pack, folder):
    """Unpack, unless another rank of this node does. Returns an error message, or None."""
    try:
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:  # another rank of this node is unpacking: the launcher waits for that one too
            there = os.lstat(folder)
            own = stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid() and not there.st_mode & 0o022
            return None if own else f"{folder} is not a folder of this user alone: give another PG_MPI_STAGE"
    except OSError as error:
        return f"{folder}: {error.strerror}"
    done = subprocess.run(["tar", "-xf", pack, "-C", folder], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        return done.stderr.strip().splitlines()[0] if done.stderr else f"tar ended with {done.returncode}"
    if os.path.dirname(pack) == os.path.dirname(folder):  # brought here for this
        with contextlib.suppress(OSError):
            os.remove(pack)
    return None


def main(arguments):
    """The process's exit code."""
    if arguments[:1] == ["--remove"]:
        shutil.rmtree(arguments[1], ignore_errors=True)
        with contextlib.suppress(OSError):
            os.remove(arguments[1] + ".tar")  # still there where unpacking failed
        return 0
    error = unpack(*arguments)
    if error:
        print(f"pg_mpi: error: could not unpack on {os.uname().nodename}: {error}", file=sys.stderr)
    return int(bool(error))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
