#!/bin/sh
# Build the wheel and the source distribution, check them, and install the wheel in an empty environment without network,
# from a folder of wheels, as on a cluster's compute node. Then train on two ranks there. Nothing is uploaded.
# usage: tests/release.sh PYTHON   (of an environment with the extra "release")
set -eu
python=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
rm -rf dist
"$python" -m build --outdir dist . >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }
"$python" -m twine check --strict dist/*
"$python" -m check_wheel_contents dist/*.whl
tar tzf dist/*.tar.gz >"$work/listing"
for file in Makefile docs/getting-started.md examples/pong_mpi.py jobs/train.slurm tests/jobs.py pg_mpi/features/encoder.c; do
    grep -q "/$file$" "$work/listing" || { echo "the source distribution lacks $file" >&2; exit 1; }
done

wheel=$(echo dist/*.whl)
"$python" -m pip -q --disable-pip-version-check download --dest "$work/wheels" "${wheel}[mpi]"
"$python" -m venv "$work/env"
"$work/env/bin/python" -m pip -q --disable-pip-version-check install --no-compile --no-index --find-links "$work/wheels" "${wheel}[mpi]"
du -sm "$work/env" | awk '{ print "installed:", $1, "MB"; exit $1 > 250 }' || { echo "more than 250 MB" >&2; exit 1; }
cd "$work" # not the source
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PATH="$work/env/bin:$PATH" \
    mpirun -n 2 pg-mpi train --total-timesteps 2000 --run-dir run
"$work/env/bin/pg-mpi" evaluate run --games 1
"$work/env/bin/python" -c 'from pg_mpi.features import native_encoder as n; assert n.LIBRARY, n.WHY_NUMPY'
echo "release: $(ls "$OLDPWD/dist")"
