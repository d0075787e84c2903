"""Imports point down only, and each outside library has one door."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pg_mpi"

#: From the entry points down to the leaves: a module may import only what stands on a lower level.
LEVELS = [
    ["tune"],
    ["train", "evaluate", "doctor", "report", "bandit"],
    ["trainer"],
    ["start"],
    ["snapshot"],
    ["rollout", "build", "meter", "tally", "journal"],
    ["imitation"],
    ["learner"],
    ["session", "shares", "elastic", "checks"],
    ["batch"],
    ["trajectory", "schedule"],
    ["config", "game", "agent", "cluster", "record"],
    ["features"],
    ["settings"],
    ["seeding", "parse", "presets"],
    ["errors"],
    ["__init__"],
]
DOORS = {
    "mpi4py": {"cluster/comm.py", "cluster/mending.py", "cluster/guarded.py"},
    "ale_py": {"game/atari.py", "game/actions.py"},
    "gymnasium": {"game/gymnasium.py"},
    "tensorboardX": {"record/metrics.py"},
    "imageio_ffmpeg": {"record/video.py"},
    "threadpoolctl": {"cluster/pinning.py"},
    "optuna": {"tune/study.py"},
    "matplotlib": {"report/figures.py", "record/picture.py"},
}
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}


def imports():
    """(file, imported module) for every import statement in the package, at any depth."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for name in names:
                yield path.relative_to(PACKAGE).as_posix(), name


def room(name):
    """The top-level part of a dotted module or a file of the package."""
    return name.split(".")[1] if name.count(".") else "__init__"


def test_arrows_point_down():
    seen = 0
    for path, name in imports():
        if not name.startswith("pg_mpi."):
            continue
        source, target = path.removesuffix(".py").split("/")[0], room(name)
        if target not in LEVEL_OF:
            continue  # a name inside __init__, such as pg_mpi.STARTED
        seen += 1
        if source != target:
            assert LEVEL_OF[source] < LEVEL_OF[target], f"{path} imports {name}: that points up"
    assert seen > 40


def test_training_does_not_know_that_it_is_measured():
    for path, name in imports():
        assert name.split(".")[0] != "scaling", f"{path} imports {name}"


def test_every_module_has_a_level():
    rooms = {path.relative_to(PACKAGE).as_posix().removesuffix(".py").split("/")[0] for path in PACKAGE.rglob("*.py")}
    assert rooms == set(LEVEL_OF)


def test_each_library_has_one_door():
    for path, name in imports():
        library = name.split(".")[0]
        if library in DOORS:
            assert path in DOORS[library], f"{path} imports {library}"


def test_the_mind_and_the_world_know_no_mpi_and_no_files():
    for path, name in imports():
        if path.startswith(("agent/", "features/", "game/")):
            assert not name.startswith(("pg_mpi.cluster", "pg_mpi.record")), f"{path} imports {name}"
        if path.startswith("agent/"):
            top = name.split(".")[0]
            assert top in {"bisect", "collections", "itertools", "math", "numpy", "scipy", "pg_mpi", "typing"}, (
                f"{path} imports {name}"
            )


def test_only_the_records_write_files():
    """``open`` for writing, and numpy's and json's file writers, stand in record/ alone."""
    writers = {"savez", "savez_compressed", "tofile", "dump", "write_text", "write_bytes", "makedirs", "mkdir"}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if name.startswith("record/") or not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute):
                assert node.func.attr not in writers, f"{name}: {ast.unparse(node)}"
            if isinstance(node.func, ast.Name) and node.func.id == "open":
                assert len(node.args) == 1, f"{name}: {ast.unparse(node)}"
