"""What has to be compiled: one optional library. All else about the package stands in setup.cfg."""

import shutil
import zlib
from pathlib import Path

from setuptools import Extension, setup

SOURCE = "pg_mpi/features/encoder.c"
for earlier in Path("build").glob("lib*"):  # modules that are gone since would be installed again
    shutil.rmtree(earlier, ignore_errors=True)

setup(
    ext_modules=[
        # No Python module but a plain library that ctypes loads: it needs a C compiler and no header of Python's. Where
        # there is none, numpy does the same. No -march: a login node compiles for other nodes' processors. No
        # contraction: the same numbers everywhere.
        Extension(
            "pg_mpi.features.libencoder",
            [SOURCE],
            define_macros=[("SOURCE", f"{zlib.crc32(Path(SOURCE).read_bytes())}u")],  # pip builds in this folder
            extra_compile_args=["-O3", "-ffp-contract=off"],
            libraries=["m"],
            optional=True,
        )
    ]
)
