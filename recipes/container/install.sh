#!/bin/sh
# The steps of both container recipes, on Debian 12 as root. $1: openmpi or mpich. The source is in /opt/pg_mpi/source.
set -eu
case $1 in
    openmpi) packages="openmpi-bin libopenmpi3" ;;
    mpich) packages="mpich libmpich12" ;;
    *) echo "MPI must be openmpi or mpich, not $1" >&2; exit 2 ;;
esac
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
# shellcheck disable=SC2086  # one word a package
apt-get -qq install -y --no-install-recommends python3 python3-venv gcc libc6-dev openssh-client $packages >/dev/null
# Debian's MPICH has another file name than MPICH's common ABI, which a host's library is bound by
lib=/usr/lib/$(uname -m)-linux-gnu
[ ! -e "$lib/libmpich.so.12" ] || ln -sf libmpich.so.12 "$lib/libmpi.so.12"
rm -rf /opt/pg_mpi/source/build  # apptainer copies all files
python3 -m venv /opt/pg_mpi/venv
/opt/pg_mpi/venv/bin/pip -qq --disable-pip-version-check install --no-cache-dir "/opt/pg_mpi/source[plot]"
apt-get -qq purge -y gcc libc6-dev >/dev/null && apt-get -qq autoremove -y >/dev/null
rm -rf /opt/pg_mpi/source /var/lib/apt/lists/*
