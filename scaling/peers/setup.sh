#!/bin/sh
# Virtual environments for the trainers to be compared, one each, with pinned versions:
#
#     scaling/peers/setup.sh [PEER ...]       all of requirements/ if none is named
#
# They lie in .peers/ of the checkout, or in $PEERS_DIR. $PYTHON makes them; the pins were tried with Python 3.11.
# Where pip sees a CPU build of torch (named 2.13.0+cpu), it takes that one; otherwise a CUDA build of several
# gigabytes, which trains on the CPU just as well. PIP_FIND_LINKS names a folder or page with CPU wheels.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
envs=${PEERS_DIR:-$here/../../.peers}
if [ $# = 0 ]; then
    for wanted in "$here"/requirements/*.txt; do set -- "$@" "$(basename "$wanted" .txt)"; done
fi
for peer; do
    wanted=$here/requirements/$peer.txt
    [ -e "$wanted" ] || { echo "no peer $peer: see $here/requirements" >&2; exit 2; }
    echo "setting up $peer"
    "${PYTHON:-python3}" -m venv --clear "$envs/$peer"
    "$envs/$peer/bin/python" -m pip -qq install --disable-pip-version-check --requirement "$wanted"
done
