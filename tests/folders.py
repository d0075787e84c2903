"""Write synthetic run folders, for tests of long, damaged or malicious runs."""

import json

PHASES = ("emulator", "reset", "features", "inference", "gradient", "allreduce", "wait", "optimizer", "record")


def line(update, ranks=2, restarts=0, seconds=2.0):
    """Return a metrics line of a run whose return rises from -21 to +21, at 1,000 steps/s per rank."""
    steps = int(1000 * ranks * seconds)
    return {
        "update": update,
        "env_steps": steps * update,
        "games": 3 * update,
        "return_mean": 21 - 42 * 0.99**update,
        "return_ci95": 0.5,
        "wall_s": 3.0 + seconds * update,
        "sps": steps / seconds,
        "updates_per_s": 1 / seconds,
        "ranks": ranks,
        "restarts": restarts,
        "phase_s": dict.fromkeys(PHASES, seconds / 10),
    }


def write_run(folder, updates=40, ranks=2, settings=None, start=None, waits=None):
    """Write a run folder and return its path."""
    folder.mkdir(parents=True)
    write_lines(folder, [line(update, ranks) for update in range(1, updates + 1)])
    first_start = {
        "time": "2026-11-22T08:14:47Z",
        "command": ["/src/pg_mpi/train.py", "--preset", "fast"],
        "commit": "acf1e33",
        "versions": {"python": "3.11.7", "pg_mpi": "0.1.0"},
        "ranks": ranks,
        "mpi": "Open MPI v5.0.11",
        "places": {
            "hosts": 1,
            "by_host": [{"host": "n1", "ranks": ranks, "first": 0, "cores": f"0-{ranks - 1}"}],
            "by_kind": [{"threads": 1, "blas": "openblas", "ranks": ranks, "first": 0}],
        },
        "job": {"SLURM_JOB_ID": "77"},
        **(start or {}),
    }
    all_settings = {"preset": "fast", "env_id": "ALE/Pong-v5", "seed": 0, "gamma": 0.99, **(settings or {})}
    write(folder / "config.json", {"settings": all_settings, "starts": [first_start]})
    seconds = waits or [0.1 * (rank + 1) for rank in range(ranks)]
    kind = "phase_s" if ranks <= 64 else "quantiles_s"
    slowest = [{"rank": seconds.index(min(seconds)), "phase_s": {"wait": min(seconds)}}]
    write(folder / "ranks.json", {"start": 0, "update": updates, kind: {"wait": seconds}, "slowest": slowest})
    return folder


def write_lines(folder, lines):
    """Write ``metrics.jsonl``."""
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")


def write(path, content):
    """Write ``content`` as JSON."""
    path.write_text(json.dumps(content), encoding="utf-8")


EVALUATION = {
    "games": 3,
    "mean": 18.5,
    "median": 19.0,
    "ci95": [17.25, 19.5],
    "sticky": 0.25,
    "greedy": False,
    "seed": 0,
    "env_id": "ALE/Pong-v5",
    "checkpoint": "step-000000160000.npz",
    "ranks": 2,
    "length_mean": 1800.0,
    "scores": [17, 19, 19.5],
    "lengths": [1800, 1800, 1800],
    "video": None,
}
