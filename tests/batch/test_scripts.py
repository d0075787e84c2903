"""Static checks of the job scripts: shellcheck, and the directives and commands of OpenPBS."""

import re
import subprocess

import jobs
import pytest
from submitted import SCRIPTS

pytestmark = [pytest.mark.batch, pytest.mark.quick]

SELECT = r"select=\d+:ncpus=\d+(:(mpiprocs|ompthreads)=\d+)*"
#: Directives of OpenPBS's qsub that the scripts may use, with the form of their values.
DIRECTIVES = {"-N": r"[\w.-]{1,230}", "-j": "oe", "-r": "[yn]", "-l": rf"({SELECT}|walltime=[\d:]+)"}
#: Options of the qsub command with which a script submits its successor.
OPTIONS = {"-V", "-N", "-W", "-l", "-q", "-A", "-P"}


def test_shellcheck_has_no_findings():
    scripts = [
        *SCRIPTS.glob("*.sh"),
        *SCRIPTS.glob("*.slurm"),
        *SCRIPTS.glob("*.pbs"),
        *(SCRIPTS / f"train.{kind}" for kind in ("sge", "lsf", "flux")),
        *(SCRIPTS / "sites").glob("*.sh"),
        *(jobs.ROOT / "tests" / name for name in ("batch/install.sh", "chaos/install.sh", "release.sh")),
        jobs.ROOT / "scaling" / "peers" / "setup.sh",
        jobs.ROOT / ".ci" / "run",
        jobs.ROOT / "recipes" / "container" / "install.sh",
    ]
    done = subprocess.run(["shellcheck", "-x", *scripts], cwd=jobs.ROOT, capture_output=True, text=True, timeout=60)
    assert len(scripts) >= 20 and done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.pbs")), ids=lambda path: path.name)
def test_directives_are_valid_in_openpbs(script):
    """Directives precede the first command. Their options and the form of their values are known."""
    lines = script.read_text(encoding="utf-8").splitlines()
    directives = [line for line in lines if line.startswith("#PBS")]
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert directives and all(lines.index(line) < first_command for line in directives), (
        "PBS ignores directives after a command"
    )
    for line in directives:
        _, option, value = line.split(maxsplit=2)
        assert re.fullmatch(DIRECTIVES[option], value), line
    assert "#SBATCH" not in "\n".join(lines)


def test_qsub_commands_are_valid_in_openpbs():
    """The example in each script's header and the qsub command of the scripts have the syntax of OpenPBS."""
    for script in SCRIPTS.glob("*.pbs"):
        (line,) = (line for line in script.read_text(encoding="utf-8").splitlines() if " qsub " in line)
        example = re.search(r"qsub -V -l (\S+) jobs/(\S+)$", line)
        assert example[2] == script.name
        assert re.fullmatch(rf"{SELECT},walltime=\d+:\d\d:\d\d", example[1]), example[1]
    call = re.search(r"submit_next qsub(.*?)\n}", (SCRIPTS / "pbs.sh").read_text(encoding="utf-8"), re.DOTALL)[1]
    assert set(re.findall(r"[ +](-[A-Za-z])\b", call)) == OPTIONS
    assert "depend=afterany:$PBS_JOBID" in call


#: A job as printed by `qstat -f` of OpenPBS, written by hand. A tab continues a long line.
QSTAT = """\
Job Id: 4711.server
    Job_Name = pg_mpi
    Account_Name = physics
    Resource_List.filesystems = home:eagle
    Resource_List.mem_128gb = 1
    Resource_List.ncpus = 512
    Resource_List.nodect = 4
    Resource_List.nodes = 4:ppn=128
    Resource_List.place = scatter:excl
    Resource_List.select = 4:ncpus=128:mpiprocs=128:ompthreads=1:mem=200gb:naccel
\terators=0
    Resource_List.vmem = 1000gb
    Resource_List.walltime = 12:00:00
    project = climate
    Variable_List = PBS_O_HOME=/home/me,PBS_O_QUEUE=workq,
\tARGS=Resource_List.walltime = 1
"""


def test_successor_requests_the_same_resources(tmp_path):
    """A stub of qsub prints its arguments, and a stub of qstat prints the job."""
    (tmp_path / "job.txt").write_text(QSTAT, encoding="utf-8")
    for name, line in (("qstat", f"cat '{tmp_path}/job.txt'"), ("qsub", 'printf "[%s]" "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "nodes").write_text("a\na\nb\n", encoding="utf-8")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PG_MPI_HOME": str(jobs.ROOT), "PG_MPI_PYTHON": "/bin/true"}
    environment |= {"PBS_O_WORKDIR": str(tmp_path), "PBS_NODEFILE": str(tmp_path / "nodes"), "PBS_JOBID": "4711.server"}
    environment |= {
        "PBS_O_QUEUE": "routing",
        "PBS_QUEUE": "large",
        "PBS_JOBNAME": "mine",
        "PG_MPI_QSUB": "-l software=x",
    }
    source = 'home=$0; . "$0/jobs/common.sh"; . "$0/jobs/pbs.sh"; '
    script = source + 'script=train.pbs; echo "$ranks $(seconds_left)"; run_again'

    def run(script=script):
        return subprocess.run(
            ["bash", "-c", script, jobs.ROOT], env=environment, capture_output=True, text=True, timeout=20
        )

    done = run()
    first, second = done.stdout.splitlines()
    ranks, left = map(int, first.split())
    assert ranks == 3 and 12 * 3600 - 10 <= left <= 12 * 3600
    select = "select=4:ncpus=128:mpiprocs=128:ompthreads=1:mem=200gb:naccelerators=0"
    resources = f"filesystems=home:eagle,place=scatter:excl,{select},walltime=12:00:00"
    options = [
        "-V",
        "-N",
        "mine",
        "-W",
        "depend=afterany:4711.server",
        "-l",
        resources,
        "-q",
        "routing",
        "-A",
        "physics",
        "-P",
        "climate",
    ]
    words = [*options, "-l", "software=x", "train.pbs"]
    assert second == "pg_mpi job: the next start is " + "".join(f"[{word}]" for word in words), done.stderr
    # without mpiprocs PBS_NODEFILE has a line for each chunk
    without = QSTAT.replace("4:ncpus=128:mpiprocs=128:ompthreads=1:mem=200gb:naccel", "2:ncpus=2+ncpus=3:naccel")
    (tmp_path / "job.txt").write_text(without, encoding="utf-8")
    script = source + "echo $ranks $OMP_NUM_THREADS $(cat $PBS_NODEFILE)"
    (tmp_path / "nodes").write_text("a\nb\nc\n", encoding="utf-8")
    done = run(script)
    said, result = done.stdout.splitlines()
    assert "a rank for each core of the chunks" in said and result == "7 1 a a b b c c c", done.stderr
    (tmp_path / "job.txt").write_text(QSTAT, encoding="utf-8")
    (tmp_path / "nodes").write_text("a\na\nb\n", encoding="utf-8")
    (tmp_path / "qstat").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    done = run()
    assert done.stdout.splitlines()[0] == "3 " and "give --max-walltime" in done.stderr
    assert "resources cannot be asked for: submit the same command again" in done.stdout and "[" not in done.stdout
