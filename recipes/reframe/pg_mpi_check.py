"""A ReFrame test of the benchmark, in its three sizes. From the checkout, after ``make setup``:

    reframe -C SETTINGS.py -c recipes/reframe/pg_mpi_check.py -n 'PgMpiBenchmark.*core' -r

The partition's scheduler starts the benchmark's own command once, and that starts the ranks. References are for
systems of yours: see the dict below.
"""

from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.builtins import parameter, performance_function, run_after, run_before, sanity_function, variable

ROOT = Path(__file__).resolve().parents[2]


@rfm.simple_test
class PgMpiBenchmark(rfm.RunOnlyRegressionTest):
    """Steps per second of a frozen training, valid only if the doctor and equal weights say so."""

    size = parameter(["core", "node", "machine"])
    ranks = variable(int, value=0)  # of machine; -S ranks=512
    launcher = variable(str, value="mpirun")  # -S launcher='srun --mpi=pmix'
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    time_limit = "15m"
    # (value, lowest, highest), the last two as fractions, on a virtual machine of two slow EPYC cores: size core, and
    # machine on two ranks under a SLURM. Other systems are measured without a reference.
    reference = {
        "epyc-2-cores:core": {"fom": (1500, -0.25, None, "steps/s")},
        "epyc-2-cores:slurm": {"fom": (2500, -0.25, None, "steps/s")},
    }

    @run_after("init")
    def needs_ranks(self):
        """Leave out the size machine without a number of ranks."""
        self.skip_if(self.size == "machine" and not self.ranks, "give -S ranks=N for the size machine")

    @run_before("run")
    def set_command(self):
        """Start the benchmark in this checkout, without a launcher of ReFrame's: it starts its own ranks."""
        self.job.launcher = getlauncher("local")()
        self.executable = str(ROOT / ".venv/bin/python")
        self.executable_opts = ["-m", "scaling.benchmark", self.size, "--out", "out"]
        self.executable_opts += ["--launcher", f"'{self.launcher}'"]
        if self.size == "machine":
            self.executable_opts += ["--ranks", str(self.ranks)]
            self.num_tasks = self.ranks
        self.env_vars["PYTHONPATH"] = str(ROOT)

    @sanity_function
    def is_valid(self):
        """The last line must say VALID."""
        return sn.assert_found(r"^FOM: [\d,]+ steps/s VALID", self.stdout)

    @performance_function("steps/s", perf_key="fom")
    def figure_of_merit(self):
        """Steps per second."""
        return sn.extractsingle(r"^FOM: ([\d,]+) steps/s VALID", self.stdout, 1, lambda n: float(n.replace(",", "")))
