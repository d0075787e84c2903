#!/bin/sh
# FUSE, which tests/chaos/faulty_fs.py needs, on Debian and as root. It stays. Without it those faults are not tried.
set -eu
export DEBIAN_FRONTEND=noninteractive
if command -v fusermount3 >/dev/null; then exit 0; fi
[ "$(id -u)" = 0 ] || { echo "not root: cannot install fuse3" >&2; exit 0; }
command -v apt-get >/dev/null || { echo "no apt-get: cannot install fuse3" >&2; exit 0; }
apt-get -qq update
apt-get -qq install -y --no-install-recommends fuse3 >/dev/null
echo "installed for these tests; to remove: apt-get purge fuse3" >&2
