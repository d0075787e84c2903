"""The docs are true: links resolve, and the commands of the README and the tour run."""

import json
import re
import shlex
import sys

import pytest
from jobs import ROOT, command, run

from pg_mpi import __version__
from pg_mpi.bandit.__main__ import parser as bandit_parser
from pg_mpi.config.command_line import parse_train, train_parser
from pg_mpi.doctor.__main__ import parser as doctor_parser
from pg_mpi.evaluate import parser as evaluate_parser
from pg_mpi.report.__main__ import parser as report_parser
from pg_mpi.status import parser as status_parser
from pg_mpi.tune.__main__ import parser as tune_parser
from pg_mpi.watch import parser as watch_parser
from scaling import benchmark, sweep
from scaling.measure import cost, population, timeline
from scaling.measure.ceiling import __main__ as ceiling
from scaling.model import fit
from scaling.model.predict import __main__ as predict
from scaling.model.virtual import __main__ as virtual
from scaling.model.virtual import check
from scaling.score import games, search

TOOLS = (benchmark, ceiling, check, cost, fit, games, population, predict, search, sweep, timeline, virtual)

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def commands(page):
    """The lines of a page's shell blocks, without comments."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def test_every_picture_is_described_and_has_its_command():
    table = (ROOT / "docs/img/README.md").read_text(encoding="utf-8")
    pictures = {path.relative_to(ROOT / "docs/img").as_posix() for path in (ROOT / "docs/img").rglob("*.*g")}
    assert pictures == set(re.findall(r"^\| `(\S+)` \|", table, re.MULTILINE))
    shown = set()
    for page in PAGES:
        for words, target in re.findall(r"!\[(.*?)\]\((.*?)\)", page.read_text(encoding="utf-8")):
            assert len(words) > 20, f"{page.name}: {target} needs a text that stands in for it"
            shown.add((page.parent / target).resolve().relative_to(ROOT / "docs/img").as_posix())
    assert shown == pictures


def test_every_flag_in_the_docs_exists():
    parsers = (
        train_parser(),
        evaluate_parser(),
        doctor_parser(),
        report_parser(),
        bandit_parser(),
        tune_parser(),
        status_parser(),
        watch_parser(),
        *(tool.parser() for tool in TOOLS),
    )
    known = {flag for parser in parsers for action in parser._actions for flag in action.option_strings}
    known |= {"--map-by", "--bind-to", "--mca", "--hostfile", "--with-ft", "--ppn"}  # mpirun's and mpiexec's
    known |= {"--only", "--table"}  # make chaos's
    known |= {"--cpus-per-task", "--cpu-bind", "--mpi"}  # srun's
    known |= {"--ntasks-per-node", "--ntasks", "--array", "--time", "--batch", "--signal", "--exclusive"}  # SLURM's
    known |= {"--dest", "--no-index", "--find-links", "--strict"}  # pip's and twine's
    known |= {"--rm", "--shm-size", "--build-arg", "--env", "--allow-run-as-root"}  # podman's, apptainer's, mpirun's
    known |= {"--native", "--subprocesses", "--output"}  # py-spy's
    known |= {"--headless", "--screenshot", "--logdir", "--sync-tensorboard"}  # Chromium's, TensorBoard's, wandb's
    for page in PAGES:
        if page.parent.name == "decisions":
            continue  # may speak of other programs' flags
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")):
            assert flag in known, f"{page.name}: {flag}"


def test_readme_commands(tmp_path):
    """Each line of the README's shell blocks is run, with a short budget where it would train for long."""
    lines = commands("README.md")
    assert lines == [
        "make train",
        "make test",
        'pip install ".[mpi]"',
        "mpirun -n 2 python -m pg_mpi.train --max-walltime 00:10:00",
        "python -m pg_mpi.evaluate runs/pong-default-s0 --games 100",
        "python -m pg_mpi.watch runs/pong-default-s0",
    ], "the README's commands changed: run the new ones here"
    words = shlex.split(lines[3])[6:]
    assert parse_train(words)[0].max_walltime == 600
    run(command(2, "pg_mpi.train", *words, "--max-walltime", "00:00:03"), tmp_path, code=75)  # the last counts
    evaluate = [sys.executable, *shlex.split(lines[4])[1:-1], "1"]
    judged = run(evaluate, tmp_path, code=0)
    assert "1 full games" in judged.stdout, judged.stderr
    watched = run([sys.executable, *shlex.split(lines[5])[1:]], tmp_path, code=2)
    assert "watch draws in a terminal" in watched.stderr


def test_tour_commands(tmp_path):
    train, evaluate = (shlex.split(line) for line in commands("docs/tour.md"))
    assert train[:5] == ["mpirun", "-n", "2", "python", "-m"]
    short = ["--max-frames", "800", "--total-timesteps", "800"]  # the last counts
    run(command(2, *train[5:], *short), tmp_path, code=0)
    judged = run([sys.executable, *evaluate[1:]], tmp_path, code=0)
    assert "2 full games" in judged.stdout, judged.stderr
    described = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    keys = json.loads((tmp_path / "runs/tour/metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert not [key for key in (*keys, *keys["phase_s"]) if f"`{key}`" not in described]


def test_python_blocks_of_custom_md_are_in_the_examples():
    """Each block of Python on the page stands in an example, line by line, but for docstrings and comments."""
    examples = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.py")))
    kept = {line.strip() for line in examples.splitlines()}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "custom.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    for line in "\n".join(blocks).splitlines():
        assert line.strip() in kept, line


def test_the_architecture_page_names_every_module():
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    modules = [path.relative_to(ROOT / "pg_mpi").as_posix() for path in (ROOT / "pg_mpi").rglob("*.py")]
    named = [name for name in modules if not name.endswith(("__init__.py", "__main__.py"))]
    assert not [name for name in named if f"`{name}`" not in page]


def test_version_is_the_same_everywhere():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"pg_mpi {__version__}: ALE/Pong-v5" in (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
