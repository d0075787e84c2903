"""What a rank opens, by strace: a thousand ranks read it from a shared file system at once."""

import re
import shutil
import sys
from pathlib import Path

import jobs
import pytest

pytestmark = [pytest.mark.batch, pytest.mark.quick]

OPENED = re.compile(r'open(?:at)?\([^"]*"([^"]+)".* = (?:\d+|-1 (E\w+))')


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_opened_files_stay_few(tmp_path):
    """A third of them are Python's own and the system's. The bounds leave room for other versions of libraries."""
    line = [sys.executable, "-m", "pg_mpi.train", "--max-frames", 400, "--total-timesteps", 100, "--run-dir", "run"]
    line = ["strace", "-f", "-e", "trace=open,openat", "-o", "trace.txt", *map(str, line)]
    jobs.run(line, tmp_path, code=0)
    calls = OPENED.findall((tmp_path / "trace.txt").read_text())
    paths = {Path(tmp_path, path).resolve() for path, error in calls if not error}
    files = [path for path in paths if path.is_file() and path.parts[1] not in ("dev", "proc", "sys")]
    found = {
        "files": len(files),
        "MB": round(sum(path.stat().st_size for path in files) / 1e6),
        "searched in vain": sum(error == "ENOENT" for _, error in calls),
    }
    print(found)
    assert found["files"] < 700 and found["MB"] < 150 and found["searched in vain"] < 600, found
