"""Imports point down only, and each outside library has one door."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pg_mpi"

#: From the entry points down to the leaves: a module may import only what stands on a lower level.
LEVELS = [
    ["tune"],
    ["train", "evaluate", "doctor", "report", "bandit"],
    ["run"],
    ["learning"],
    ["env", "policy", "mpi", "files"],
    ["features"],
    ["config"],
    ["__init__"],
]
DOORS = {
    "mpi4py": {"mpi/world.py", "mpi/ulfm.py", "mpi/failure_vote.py"},
    "ale_py": {"env/atari.py", "env/action_set.py"},
    "gymnasium": {"env/gym_spec.py"},
    "tensorboardX": {"files/metrics_file.py"},
    "imageio_ffmpeg": {"files/video.py"},
    "threadpoolctl": {"mpi/pinning.py"},
    "optuna": {"tune/study.py"},
    "matplotlib": {"report/figures.py", "files/figure_file.py"},
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


def test_policies_and_environments_know_no_mpi_and_no_files():
    for path, name in imports():
        if path.startswith(("policy/", "features/", "env/", "learning/")):
            assert not name.startswith(("pg_mpi.mpi", "pg_mpi.files")), f"{path} imports {name}"
        if path.startswith("policy/"):
            top = name.split(".")[0]
            assert top in {"bisect", "collections", "itertools", "math", "numpy", "scipy", "pg_mpi", "typing"}, (
                f"{path} imports {name}"
            )


def test_only_files_writes_files():
    """``open`` for writing, and numpy's and json's file writers, stand in files/ alone."""
    writers = {"savez", "savez_compressed", "tofile", "dump", "write_text", "write_bytes", "makedirs", "mkdir"}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if name.startswith("files/") or not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute):
                assert node.func.attr not in writers, f"{name}: {ast.unparse(node)}"
            if isinstance(node.func, ast.Name) and node.func.id == "open":
                assert len(node.args) == 1, f"{name}: {ast.unparse(node)}"
