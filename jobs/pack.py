"""Pack what a run needs of the environment and of our code into one tar file.

    python -m jobs.pack PACK HOME

Left out are distributions that only some extras of ours need (``UNUSED``), installers, and the tests of libraries. The
rest is byte-compiled first, or each rank would do it. Only the standard library.
"""

import compileall
import os
import re
import sys
import tarfile
from importlib.metadata import distributions
from importlib.util import cache_from_source

UNUSED = ("dev", "docs", "profile", "release", "video")  # extras that no batch job needs
INSTALLERS = {"pip", "setuptools", "wheel"}


def unused():
    """The distributions that no job uses: neither pg_mpi nor one that somebody installed beside it needs them."""
    every = {_normal(each.name): each for each in distributions()}
    needs = {name: _requirements(each) for name, each in every.items()}
    begun = set(every) - INSTALLERS - {need for needed in needs.values() for need in needed}
    reached = set()
    while begun:
        reached |= begun
        begun = {need for name in begun for need, extra in needs[name].items() if extra not in UNUSED} & set(every)
        begun -= reached
    return [every[name] for name in set(every) - reached]


def _requirements(package):
    """Return a dict from each requirement to its extra, of ours, or None. Other distributions' extras are ignored."""
    found = {}
    for line in package.requires or []:
        extra = re.search(r"extra\s*==\s*['\"](.+?)['\"]", line)
        if not extra or package.name == "pg_mpi":
            found[_normal(re.match(r"[\w.-]+", line)[0])] = extra and extra[1]
    return found


def _normal(name):
    """Return a name as in PEP 503, but for our own underscore."""
    return name if name == "pg_mpi" else re.sub(r"[-_.]+", "-", name).lower()


def content(top, left_out=()):
    """Yield the paths of the files and links in a folder, without libraries' tests, and of compiled source files."""
    for folder, folders, files in os.walk(top):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        skipped = {"__pycache__", "tests"} if "site-packages" in folder else {"__pycache__"}
        folders[:] = [name for name in folders if name not in skipped]
        for path in (os.path.join(folder, name) for name in files + links):
            if path not in left_out:
                yield path
                if path.endswith(".py") and compileall.compile_file(path, quiet=2):
                    yield cache_from_source(path)


def main(pack, home):
    """Write the pack."""
    left_out = {os.path.normpath(each.locate_file(path)) for each in unused() for path in each.files or []}
    with tarfile.open(pack, "w") as tar:
        for top, names in ((home, ("pg_mpi", "scaling")), (sys.prefix, ("",))):
            for path in (path for name in names for path in content(os.path.join(top, name), left_out)):
                tar.add(path, os.path.relpath(path, top), recursive=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
