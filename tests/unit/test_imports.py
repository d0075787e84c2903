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
        if path.startswith("learning/") and name.startswith("pg_mpi.mpi.interface"):
            continue  # the protocol of the ranks
        if path.startswith(("policy/", "features/", "env/", "learning/")):
            assert not name.startswith(("pg_mpi.mpi", "pg_mpi.files")), f"{path} imports {name}"
        if path.startswith("policy/"):
            top = name.split(".")[0]
            assert top in {"bisect", "collections", "itertools", "math", "numpy", "scipy", "pg_mpi", "typing"}, (
                f"{path} imports {name}"
            )


#: What creates, changes or deletes a file: methods of any object, and functions of modules.
WRITERS = {"savez", "savez_compressed", "tofile", "dump", "write_text", "write_bytes", "touch", "mkdir", "unlink"}
FUNCTIONS = {
    "os": {"open", "mkdir", "makedirs", "remove", "unlink", "rmdir", "rename", "replace", "truncate", "link"},
    "shutil": {"rmtree", "move", "copy", "copy2", "copyfile", "copytree"},
    "tempfile": {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"},
}


def test_only_files_writes_files():
    """Only files/ creates, changes or deletes files; the launcher deletes what killed Open MPI jobs left."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("files/") or name == "mpi/launch/stale_segments.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                assert not writes(node), f"{name}: {ast.unparse(node)}"


def writes(call):
    """Whether a call may create, change or delete a file."""
    function = call.func
    if isinstance(function, ast.Attribute):
        module = ast.unparse(function.value)
        return function.attr in WRITERS or function.attr in FUNCTIONS.get(module, ())
    if isinstance(function, ast.Name) and function.id == "open":
        modes = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
        return any(not isinstance(mode, ast.Constant) or set(mode.value) & set("wax+") for mode in modes)
    return False


def test_the_rule_of_writers_finds_them():
    for text in ("open(p, 'w')", "open(p, mode='r+b')", "open(p, mode)", "os.replace(a, b)", "path.unlink()"):
        assert writes(ast.parse(text).body[0].value), text
    for text in ("open(p)", "open(p, mode='rb')", "text.replace(a, b)", "names.remove(a)"):
        assert not writes(ast.parse(text).body[0].value), text


def test_no_random_stream_depends_on_the_rank():
    """A stream belongs to an env, a game or a run, so results do not depend on the number of ranks."""
    calls = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "stream":
                calls += 1
                assert "rank" not in ast.unparse(node), f"{path.name}: {ast.unparse(node)}"
            elif isinstance(node, ast.Call) and not node.args:
                assert not ast.unparse(node.func).endswith("default_rng"), f"{path.name}: {ast.unparse(node)}"
    assert calls > 10
