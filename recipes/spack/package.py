# A recipe of Spack, for a repository of yours: repos/NAME/packages/py_pg_mpi/package.py (packages/py-pg-mpi before Spack 1.0).
# The source is a clone: spack dev-build, or the develop section of an environment, with the path of the checkout.
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyPgMpi(PythonPackage):
    """Policy gradients on CPU clusters: one Atari emulator per MPI rank, numpy, and Allreduce."""

    homepage = "https://pypi.org/project/pg_mpi"
    pypi = "pg_mpi/pg_mpi-1.0.0.tar.gz"

    license("MIT")

    version("1.0.0")  # nothing is uploaded yet: there is no checksum

    variant("plot", default=True, description="Figures and the HTML report")
    variant("tune", default=False, description="Tuning with Optuna")

    depends_on("c", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-setuptools@64:", type="build")
    depends_on("py-numpy@1.24:", type=("build", "run"))
    depends_on("py-scipy@1.10:", type=("build", "run"))
    depends_on("py-mpi4py@4:", type=("build", "run"))
    depends_on("py-gymnasium@1.1:", type=("build", "run"))
    depends_on("py-ale-py@0.12:", type=("build", "run"))
    depends_on("py-threadpoolctl@3.1:", type=("build", "run"))
    depends_on("py-matplotlib@3.7:", when="+plot", type="run")
    depends_on("py-optuna@4:", when="+tune", type="run")
    depends_on("py-tomli@2:", when="+tune ^python@:3.10", type="run")
