"""What has to be compiled: one optional library. All else about the package stands in setup.cfg."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        # No Python module but a plain library that ctypes loads: it needs a C compiler and no header of Python's. Where
        # there is none, numpy does the same. No -march: a login node compiles for other nodes' processors. No
        # contraction: the same numbers everywhere.
        Extension(
            "pg_mpi.game.look",
            ["pg_mpi/game/look.c"],
            extra_compile_args=["-O3", "-ffp-contract=off"],
            libraries=["m"],
            optional=True,
        )
    ]
)
