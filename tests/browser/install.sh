#!/bin/sh
# The browser that tests/browser needs, on Debian and as root. It stays; where another Chromium is, that one is taken.
set -eu
export DEBIAN_FRONTEND=noninteractive
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
[ "$(id -u)" = 0 ] || { echo "not root: cannot install chromium"; exit 0; }  # and the tests skip themselves, saying so
command -v apt-get >/dev/null || { echo "no apt-get: cannot install chromium"; exit 0; }
apt-get -qq update
apt-get -qq install -y --no-install-recommends chromium >/dev/null
echo "installed for these tests; to remove: apt-get purge chromium"
