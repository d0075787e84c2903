"""Parts of the job scripts: what they read is never evaluated, and a staged environment is this user's own."""

import os
import re
import subprocess
import sys
import tarfile
from importlib.util import cache_from_source
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def bash(function, script, cwd):
    """Run a script with one function of jobs/common.sh and stubs of those that it calls."""
    common = (ROOT / "jobs" / "common.sh").read_text()
    definition = re.search(rf"^{function}\(\) {{.*? }}$|^{function}\(\) {{\n.*?^}}$", common, re.MULTILINE | re.DOTALL)[
        0
    ]
    stubs = (
        "AGAIN=75 lead=60 asked= module=pg_mpi.train id=7 SPACE=exported\n"
        "say() { echo $*; }; fail() { echo $*; exit 2; }; seconds_left() { :; }\n"
    )
    line = ["bash", "-c", f"{stubs} run_again() {{ echo run again; }}\n{definition}\n{script}"]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--seed 3 --run-dir 'two words'", ["--seed", "3", "--run-dir", "two words"]),
        ('--a "$(touch bad)" `touch bad` $HOME', ["--a", "$(touch bad)", "`touch", "bad`", "$HOME"]),
        ("", []),
    ],
)
def test_arguments_are_split_and_not_evaluated(tmp_path, line, words):
    (tmp_path / "line").write_text(line)
    script = 'split "$(cat line)"; if [ ${#words[@]} != 0 ]; then printf "%s\\n" "${words[@]}"; fi'
    assert bash("split", script, tmp_path).stdout.splitlines() == words
    assert os.listdir(tmp_path) == ["line"]


def test_unclosed_quote_is_refused(tmp_path):
    result = bash("split", """split "it's" """, tmp_path)
    assert (result.returncode, result.stdout) == (2, "a quote is not closed in: it's\n")


@pytest.mark.parametrize(
    ("content", "after"), [("x[$(touch bad)]", "1"), ("", "1"), ("08", None), ("1", "2"), (None, "1")]
)
def test_count_of_stalls_is_not_evaluated(tmp_path, content, after):
    if content is not None:
        (tmp_path / "stalls").write_text(f"{content}\n")
    result = bash("go_on_later", "go_on_later . no", tmp_path)
    if after is None:
        assert result.returncode == 1 and "9 starts in a row made no progress" in result.stdout
    else:
        assert (result.returncode, result.stderr) == (75, "") and (tmp_path / "stalls").read_text() == f"{after}\n"
    assert not (tmp_path / "bad").exists()


def test_starts_that_cannot_be_counted_end_unless_they_make_progress(tmp_path):
    (tmp_path / "file").touch()
    result = bash("go_on_later", "go_on_later file/run no", tmp_path)
    assert result.returncode == 1 and "starts without progress cannot be counted in file/run" in result.stdout
    assert bash("go_on_later", "go_on_later file/run yes", tmp_path).stdout.endswith("run again\n")


def test_tasks_of_a_study_count_their_own_stalls(tmp_path):
    bash("go_on_later", "module=pg_mpi.tune; go_on_later . no", tmp_path)
    assert os.listdir(tmp_path) == ["stalls-7"]


def test_checkpoints_are_found_in_a_linked_folder(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "step-000000000010.npz").touch()
    (tmp_path / "run").symlink_to("disk")
    assert bash("saved", "saved run", tmp_path).stdout == "run/step-000000000010.npz\n"


@pytest.fixture
def unpack(tmp_path):
    """A function that unpacks a small environment into a folder, as ``jobs/stage.sh`` does."""
    (tmp_path / "content").write_text("staged")
    with tarfile.open(tmp_path / "pack.tar", "w") as pack:
        pack.add(tmp_path / "content", "content")

    def run(folder):
        line = [sys.executable, "-m", "jobs.unpack", str(tmp_path / "pack.tar"), str(folder)]
        return subprocess.run(line, cwd=ROOT, capture_output=True, text=True)

    return run


def test_pack_holds_what_a_run_needs(tmp_path):
    """Of the environment of these tests, not pytest itself."""
    subprocess.run([sys.executable, "-m", "jobs.pack", str(tmp_path / "pack.tar"), str(ROOT)], cwd=ROOT, check=True)
    with tarfile.open(tmp_path / "pack.tar") as pack:
        names = set(pack.getnames())
    (tmp_path / "pack.tar").unlink()  # large
    packages = {name.split("site-packages/")[1].split("/")[0] for name in names if "site-packages/" in name}
    assert {"numpy", "scipy", "mpi4py", "ale_py", "gymnasium", "optuna", "tensorboardX", "matplotlib"} <= packages
    assert not {"pytest", "mypy", "ruff", "hypothesis", "pip", "setuptools", "imageio_ffmpeg"} & packages
    assert not [name for name in names if "/tests/" in name] and "bin/python" in names and "bin/pytest" not in names
    sources = {name for name in names if name.startswith("pg_mpi/") and name.endswith(".py")}
    assert len(sources) == len(list((ROOT / "pg_mpi").rglob("*.py")))
    assert {cache_from_source(name) for name in sources} <= names, "not all byte-compiled"


def test_environment_is_unpacked_once_for_this_user_alone(tmp_path, unpack):
    folder = tmp_path / "stage" / "env"
    assert [unpack(folder).returncode for _ in range(2)] == [0, 0]
    assert (folder / "content").read_text() == "staged" and folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("kind", ["link", "file", "writable"])
def test_folder_that_somebody_else_may_have_made_is_refused(tmp_path, unpack, kind):
    folder = tmp_path / "env"
    if kind == "link":
        (tmp_path / "other").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "other")
    elif kind == "file":
        folder.touch()
    else:
        folder.mkdir()
        folder.chmod(0o777)
    result = unpack(folder)
    assert result.returncode == 1 and f"{folder} is not a folder of this user alone" in result.stderr


#: What a stub of each command prints, by the beginning of its command line; its exit code is 1 where it is None.
REPLIES = {
    "squeue": "12:00:00",
    "srun": None,
    "srun --mpi=pmix": "",
    "scontrol show node": "NodeName=n1 CoresPerSocket=64 ThreadsPerCore=2",
    "scontrol requeue": None,
    "sbatch": "8",
    "qstat -f": "Job Id: 7.server\n    Account_Name = physics\n    Resource_List.select = 2:ncpus=2:mpiprocs=2\n"
    "    Resource_List.walltime = 12:00:00",
    "qstat -j": "hard resource_list:         h_rt=43200,mem=1G",
    "qsub": "8.server",
    "bjobs": "720.0",
    "jsrun": "",
    "brequeue": None,
    "flux resource": "2\n2",
    "flux getattr": "f7",
    "flux job timeleft": "43199.5",
    "flux run": None,
    "flux run -o pmi=pmix": "",
    "flux --parent batch": "f8",
}
#: A stub of Python: it names the run folder, and "trains" until its walltime is over.
PYTHON = """#!/bin/bash
case "$*" in
    *command_line*) echo run ;;
    *launch*)
        echo "launch ${*:3}" >>"$CALLS"
        mkdir -p run/checkpoints; touch run/checkpoints/step-000000000009.npz
        [ -z "$SLURM_TASKS_PER_NODE" ] || echo "launch on $SLURM_TASKS_PER_NODE" >>"$CALLS"
        exit 75 ;;
esac
"""
#: By script: what the batch system sets, and the calls that matter: how ranks are started, and how the job comes again.
SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_SUBMIT_DIR": ".", "SLURM_JOB_NAME": "pg"}
SLURM |= {"SLURM_JOB_PARTITION": "cpu", "SLURM_JOB_ACCOUNT": "a"}
#: How every job of four ranks under SLURM begins, and how it comes again.
FOUR = "launch --launcher srun --mpi=pmix -n 4 -- pg_mpi.train --max-walltime 43140 --seed 1\n"
AGAIN = "scontrol requeue 7\nsbatch --parsable --dependency=afterany:7 --no-requeue --nodes=2 --ntasks=4 --job-name=pg "
AGAIN += "--time=12:00:00 "
CALLS = {
    "train.slurm": (
        SLURM | {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2"},
        f"{FOUR}{AGAIN}--ntasks-per-node=2 --partition=cpu --account=a ROOT/jobs/train.slurm --seed 1\n",
    ),
    "train.slurm, a SLURM that does not say the number of tasks": (
        SLURM | {"SLURM_NTASKS_PER_NODE": "2"},
        f"{FOUR}{AGAIN}--ntasks-per-node=2 --partition=cpu --account=a ROOT/jobs/train.slurm --seed 1\n",
    ),
    "train.slurm, nodes with two threads a core, whose tasks it does not say": (
        SLURM | {"SLURM_JOB_CPUS_PER_NODE": "6,2"},
        f"{FOUR}launch on 3,1\n{AGAIN}--partition=cpu --account=a ROOT/jobs/train.slurm --seed 1\n",
    ),
    "train.slurm, equal nodes with two threads a core": (
        SLURM | {"SLURM_NTASKS": "2", "SLURM_JOB_CPUS_PER_NODE": "4(x2)"},
        f"{FOUR}launch on 2(x2)\n{AGAIN}--partition=cpu --account=a ROOT/jobs/train.slurm --seed 1\n",
    ),
    "train.pbs": (
        {"PBS_JOBID": "7.server", "PBS_O_WORKDIR": ".", "PBS_NODEFILE": "nodes", "ARGS": "--seed 1"},
        "launch --launcher mpirun -n 4 -- pg_mpi.train --max-walltime 43140 --seed 1\n"
        "qsub -V -N pg_mpi -W depend=afterany:7.server -l select=2:ncpus=2:mpiprocs=2,walltime=12:00:00 -A physics "
        "ROOT/jobs/train.pbs\n",
    ),
    "train.sge": (
        {"JOB_ID": "7", "SGE_O_WORKDIR": ".", "NSLOTS": "4"},
        "launch --launcher mpirun -n 4 -- pg_mpi.train --max-walltime 43140 --seed 1\n",
    ),
    "train.lsf": (
        {"LSB_JOBID": "7", "LSB_DJOB_NUMPROC": "5", "LSB_DJOB_HOSTFILE": "hosts", "LS_SUBCWD": ".", "ARGS": "--seed 1"},
        "launch --launcher jsrun -n 4 -- pg_mpi.train --max-walltime 43140 --seed 1\nbrequeue 7\n",
    ),
    "train.lsf, named launcher": (
        {"LSB_JOBID": "7", "LSB_DJOB_NUMPROC": "5", "LSB_DJOB_HOSTFILE": "hosts", "LS_SUBCWD": ".", "ARGS": "--seed 1"}
        | {"PG_MPI_LAUNCHER": "jsrun --smpiargs=x"},
        "launch --launcher jsrun --smpiargs=x -n 4 -- pg_mpi.train --max-walltime 43140 --seed 1\nbrequeue 7\n",
    ),
    "train.flux": (
        {"FLUX_JOB_ID": "1"},
        "launch --launcher flux run -o pmi=pmix -n 4 -- pg_mpi.train --max-walltime 43140 --seed 1\n"
        "flux --parent batch --dependency=afterany:f7 --nslots=4 --time-limit=43199s ROOT/jobs/train.flux --seed 1\n",
    ),
}


@pytest.mark.parametrize("script", CALLS)
def test_job_script_starts_all_ranks_and_comes_again(script, tmp_path):
    """With stubs of the batch system's commands, which record how they are called."""
    environment, expected = CALLS[script]
    for name in {command.split()[0] for command in REPLIES}:
        cases = sorted((command for command in REPLIES if command.split()[0] == name), key=len, reverse=True)
        lines = [
            f"'{case}'*) {'exit 1' if REPLIES[case] is None else f'cat <<END{chr(10)}{REPLIES[case]}{chr(10)}END'}\n;;"
            for case in cases
        ]
        stub = f'#!/bin/bash\necho "{name} $*" >>"$CALLS"\ncase "{name} $*" in\n' + "\n".join(lines) + "\nesac\n"
        (tmp_path / name).write_text(stub)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "nodes").write_text("a\na\nb\nb\n")
    (tmp_path / "hosts").write_text("batch\na\na\nb\nb\n")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PG_MPI_HOME": str(ROOT), "CALLS": str(tmp_path / "calls")} | {
        "PG_MPI_PYTHON": str(tmp_path / "python"),
        **environment,
    }
    arguments = [] if "ARGS" in environment else ["--seed", "1"]
    line = ["bash", ROOT / "jobs" / script.split(",")[0], *arguments]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == (99 if script == "train.sge" else 75), done.stdout + done.stderr
    calls = (tmp_path / "calls").read_text().replace(str(ROOT), "ROOT")
    calls = re.sub(
        r"\b431[0-4]\d\b", "43140", re.sub(r"\b432\d\ds", "43199s", calls)
    ).splitlines()  # by the seconds passed
    matter = ("launch", "scontrol requeue", "sbatch", "qsub", "brequeue", "flux --parent")
    assert [line for line in calls if line.startswith(matter)] == expected.splitlines(), done.stderr
