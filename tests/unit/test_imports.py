"""Imports point to lower levels only, and each library is imported in one place."""

import ast
import functools
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pg_mpi"

#: Levels, from the entry points to the leaves. A module imports only from its own package and from lower levels.
LEVELS = [
    ["__main__", "api", "tune"],
    ["train", "evaluate", "watch", "status", "doctor", "report", "bandit"],
    ["run"],
    ["learning"],
    ["env", "policy", "mpi", "files"],
    ["features"],
    ["config"],
    ["__init__"],
]
IMPORTED_BY = {
    "mpi4py": {"mpi/world.py", "mpi/ulfm.py", "mpi/group_failure_vote.py"},
    "ale_py": {"env/atari.py", "env/action_set.py"},
    "gymnasium": {"env/gym_spec.py"},
    "tensorboardX": {"files/metrics_file.py"},
    "imageio_ffmpeg": {"files/video.py"},
    "threadpoolctl": {"mpi/thread_pinning.py"},
    "optuna": {"tune/study.py"},
    "matplotlib": {"report/figures.py", "files/figure_file.py"},
}
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}


@functools.cache
def imports():
    """(file, imported module) for every import statement in the package, at any depth."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            found += [(path.relative_to(PACKAGE).as_posix(), name) for name in names]
    return found


def package_of(name):
    """Return the first part of a dotted module name below ``pg_mpi``."""
    return name.split(".")[1] if name.count(".") else "__init__"


def test_imports_point_to_lower_levels():
    checked = 0
    for path, name in imports():
        if not name.startswith("pg_mpi."):
            continue
        source, target = path.removesuffix(".py").split("/")[0], package_of(name)
        if target not in LEVEL_OF:
            continue  # a name defined in pg_mpi/__init__.py
        checked += 1
        if source != target:
            assert LEVEL_OF[source] < LEVEL_OF[target], f"{path} imports {name}, which is not on a lower level"
    assert checked > 40


def test_pg_mpi_does_not_import_scaling():
    for path, name in imports():
        assert name.split(".")[0] != "scaling", f"{path} imports {name}"


def test_every_module_has_a_level():
    packages = {
        path.relative_to(PACKAGE).as_posix().removesuffix(".py").split("/")[0] for path in PACKAGE.rglob("*.py")
    }
    assert packages == set(LEVEL_OF)


def test_libraries_are_imported_only_by_listed_modules():
    for path, name in imports():
        library = name.split(".")[0]
        if library in IMPORTED_BY:
            assert path in IMPORTED_BY[library], f"{path} imports {library}"


def test_policy_env_and_learning_import_no_mpi_and_no_files():
    for path, name in imports():
        if path.startswith("learning/") and name.startswith("pg_mpi.mpi.interface"):
            continue  # the protocol of the collectives
        if path.startswith(("policy/", "features/", "env/", "learning/")):
            assert not name.startswith(("pg_mpi.mpi", "pg_mpi.files")), f"{path} imports {name}"
        if path.startswith("policy/"):
            top = name.split(".")[0]
            assert top in {"bisect", "collections", "itertools", "math", "numpy", "scipy", "pg_mpi", "typing"}, (
                f"{path} imports {name}"
            )


#: Methods of any object, and functions of modules, that create, change or delete files.
WRITERS = {"savez", "savez_compressed", "tofile", "dump", "write_text", "write_bytes", "touch", "mkdir", "unlink"}
FUNCTIONS = {
    "os": {"open", "mkdir", "makedirs", "remove", "unlink", "rmdir", "rename", "replace", "truncate", "link"},
    "shutil": {"rmtree", "move", "copy", "copy2", "copyfile", "copytree"},
    "tempfile": {"mkstemp", "mkdtemp", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile"},
}


def test_only_the_files_package_writes_files():
    """Only files/ creates, changes or deletes files. Two modules have to do with the named files of shared memory."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith("files/") or name in ("mpi/launch/stale_segments.py", "mpi/shared_memory.py"):
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
    if isinstance(function, ast.Name) and function.id == "open" and ast.unparse(call.args[0]) != "os.devnull":
        modes = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        return any(not isinstance(mode, ast.Constant) or set(mode.value) & set("wax+") for mode in modes)
    return False


def test_writes_detects_calls_that_change_files():
    for text in ("open(p, 'w')", "open(p, mode='r+b')", "open(p, mode)", "os.replace(a, b)", "path.unlink()"):
        assert writes(ast.parse(text).body[0].value), text
    for text in ("open(p)", "open(os.devnull, 'w')", "open(p, mode='rb')", "text.replace(a, b)", "names.remove(a)"):
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


def test_run_folders_are_looked_up_without_os_path():
    """``os.path.exists`` and the like answer False where the file system answers with an error: see ``atomic_file``."""
    for folder in ("files", "run"):
        for path in (PACKAGE / folder).glob("*.py"):
            found = re.findall(r"os\.path\.(?:l?exists|is\w+)\(", path.read_text(encoding="utf-8"))
            assert not set(found) - {"os.path.isabs("}, f"{path} calls {found}"
