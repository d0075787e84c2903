#!/bin/sh
# The packages that tests/batch needs, on Debian and as root: SLURM with its PBS commands, munge, PMIx, sshd, strace, and
# what checks scripts (shellcheck).
# Grid Engine is not among them: Debian's package of it removes SLURM's PBS commands. See test_sge.py.
# They stay; nothing of them is started by this, and the tests start and end their own daemons.
set -eu
export DEBIAN_FRONTEND=noninteractive
packages="slurm-wlm munge libpmix2 libpmi2-0 slurm-wlm-torque shellcheck iproute2 procps openssh-server openssh-client strace"
missing=""
for name in $packages; do
    dpkg-query --show --showformat='${Status}' "$name" 2>/dev/null | grep -q ' installed' || missing="$missing $name"
done
[ -n "$missing" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "not root: cannot install$missing"; exit 0; }  # and the tests skip themselves, saying so
command -v apt-get >/dev/null || { echo "no apt-get: cannot install$missing"; exit 0; }
policy=/usr/sbin/policy-rc.d  # while it says 101, Debian starts no service of a new package
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP  # dash runs the EXIT trap then too
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
apt-get -qq update
# shellcheck disable=SC2086  # one word a package
apt-get -qq install -y --no-install-recommends $missing >/dev/null
# slurm-wlm-torque makes a wrapper of its own the machine's mpirun, which starts nothing here
update-alternatives --quiet --remove mpirun /usr/bin/mpiexec.slurm 2>/dev/null || true
echo "installed for these tests; to remove: apt-get purge$missing"
