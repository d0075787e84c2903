"""The job scripts as they are written: shellcheck, and what OpenPBS would read of them."""

import re
import subprocess

import jobs
import pytest
from submitted import SCRIPTS

pytestmark = [pytest.mark.batch, pytest.mark.quick]

SELECT = r"select=\d+:ncpus=\d+(:(mpiprocs|ompthreads)=\d+)*"
#: Directives of OpenPBS's qsub that a script of ours may use, and what may follow them.
DIRECTIVES = {"-N": r"[\w.-]{1,230}", "-j": "oe", "-r": "[yn]", "-l": rf"({SELECT}|walltime=[\d:]+)"}
#: Options that a script gives to qsub itself, for its successor.
OPTIONS = {"-V", "-N", "-W", "-l", "-q", "-A"}


def test_shellcheck_has_nothing_to_say():
    scripts = [*SCRIPTS.glob("*.*"), jobs.ROOT / "tests" / "batch" / "install.sh", jobs.ROOT / ".ci" / "run"]
    done = subprocess.run(["shellcheck", "-x", *scripts], cwd=jobs.ROOT, capture_output=True, text=True, timeout=60)
    assert len(scripts) >= 11 and done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.pbs")), ids=lambda path: path.name)
def test_every_directive_is_one_of_openpbs(script):
    """A script's directives stand before its first command, each one known, each value of a known form."""
    lines = script.read_text(encoding="utf-8").splitlines()
    said = [line for line in lines if line.startswith("#PBS")]
    first = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert said and all(lines.index(line) < first for line in said), "PBS reads none after the first command"
    for line in said:
        _, option, value = line.split(maxsplit=2)
        assert re.fullmatch(DIRECTIVES[option], value), line
    assert "#SBATCH" not in "\n".join(lines)


def test_the_commands_that_the_scripts_name_are_of_openpbs():
    """The example in each script's head asks for resources as OpenPBS writes them; so does the call of qsub."""
    for script in SCRIPTS.glob("*.pbs"):
        (line,) = (line for line in script.read_text(encoding="utf-8").splitlines() if " qsub " in line)
        asked = re.search(r"qsub -V -l (\S+) jobs/(\S+)$", line)
        assert asked[2] == script.name
        assert re.fullmatch(rf"{SELECT},walltime=\d+:\d\d:\d\d", asked[1]), asked[1]
    call = re.search(r"\$\(qsub (.*?)\); then", (SCRIPTS / "pbs.sh").read_text(encoding="utf-8"), re.S)[1]
    assert set(re.findall(r" (-\w)\b", f" {call}")) <= OPTIONS
    assert "depend=afterany:$PBS_JOBID" in call
