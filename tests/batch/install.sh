#!/bin/sh
# The packages that tests/batch needs, on Debian and as root: SLURM with its PBS commands, munge, PMIx, shellcheck.
set -eu
export DEBIAN_FRONTEND=noninteractive
packages="slurm-wlm munge libpmix2 libpmi2-0 slurm-wlm-torque shellcheck iproute2 procps"
# shellcheck disable=SC2086  # one word a package
dpkg-query --show $packages >/dev/null 2>&1 || {
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends $packages >/dev/null
}
# slurm-wlm-torque makes a wrapper of its own the machine's mpirun, which starts nothing here
for name in mpirun mpiexec; do
    update-alternatives --quiet --remove-all "$name" 2>/dev/null || true
done
# SLURM's plugin opens the library by its bare name
library=$(find /usr/lib -name 'libpmix.so.2' -path '*pmix2*' | head -n 1)
[ -z "$library" ] || ln -sf libpmix.so.2 "$(dirname "$library")/libpmix.so"
