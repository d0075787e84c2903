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
    definition = re.search(rf"^{function}\(\) {{\n.*?^}}$", common, re.MULTILINE | re.DOTALL)[0]
    stubs = (
        "AGAIN=75 lead=60 asked= SPACE= id=7; say() { echo $*; }; fail() { echo $*; exit 2; }; seconds_left() { :; }\n"
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
