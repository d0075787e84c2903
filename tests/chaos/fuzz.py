"""Fuzzers: damaged and forged files of every kind that is read. Only a one-line error is accepted, or success.

A file is a good one with its bytes damaged, or with random values in place of some of its JSON. Everything runs in this
process, so a crash of the interpreter ends the run.
"""

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import time
import warnings
import zlib

import folders
from jobs import ROOT
from outcome import fault

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import RunError, UsageError
from pg_mpi.files import checkpoint_file, checkpoint_folder, provenance
from pg_mpi.files.metrics_file import MetricsLog
from pg_mpi.files.run_folder import RunFolder
from pg_mpi.mpi.world import World
from pg_mpi.report import page, read
from pg_mpi.run.trainer import Trainer
from pg_mpi.tune import space
from pg_mpi.tune.study import Study

HOUR = 3600.0  # seconds: the time of one fuzzer in the full number of tries, which has no end
ENDLESS = 10**9
LARGEST = 1 << 16  # bytes of damaged text
VALUES = (
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63,
    10**400,
    0.5,
    -1e308,
    float("inf"),
    float("nan"),
    "",
    "x",
    "é\0",
    "9" * 5000,
)
VALUES += ([], {}, [[]], {"": {}}, [1, "2", None], "a.b:c", "../../x", "[" * 50)
PRESET = {"gamma": 0.9, "hidden": 16, "env_id": "CartPole-v1", "num_steps": 64, "reproducible": False, "preset": "fast"}
SPACE = "[learning_rate]\nlow = 1e-4\nhigh = 1e-3\nlog = true\n\n[num-steps]\nlow = 32\nhigh = 128\nstep = 32\n"
SPACE += "[hidden]\nchoices = [11, 12]\n"
CARTPOLE = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "16", "--minibatch-size", "16"]


def fuzzer(kind, tries, full=ENDLESS):
    """Decorator: a fault that calls ``make(folder)`` once, and then its result, a function of a generator, each try."""

    def register(make):
        @fault(f"fuzz: {kind}", tries, full)
        def run(outcome, folder, tries, seed):
            check, rng, end = make(folder), random.Random(seed), time.monotonic() + HOUR
            for _ in range(tries):
                with outcome.attempt(), quiet(), contextlib.suppress(UsageError, RunError):
                    check(rng)
                if time.monotonic() > end:
                    break

        return make

    return register


@contextlib.contextmanager
def quiet():
    """Context without output and warnings."""
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def damaged(content, rng):
    """Bytes with some changed, removed, repeated or inserted."""
    content = bytearray(content)
    for _ in range(rng.randint(1, 8)):
        at, size = rng.randrange(len(content) + 1), rng.choice((1, 1, 2, 16, 300))
        kind = rng.randrange(5)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[at : at + size]
        elif kind == 2:
            content[at:at] = content[at : at + size] * rng.choice((1, 2, 50))
        elif kind == 3:
            content[at:at] = rng.choice((b"[", b"{", b'"', b"\0", b"\xff", b"\n", b",", b"9", b"-", b"e")) * size
        else:
            content[at : at + size] = bytes(len(content[at : at + size]))
    return bytes(content[:LARGEST])


def forged(value, rng):
    """A copy of a JSON value with one part replaced, removed or added."""
    value = json.loads(json.dumps(value))
    holder, key, here = [value], 0, value
    while isinstance(here, (dict, list)) and here and rng.random() < 0.8:
        holder = here
        key = rng.choice(sorted(here)) if isinstance(here, dict) else rng.randrange(len(here))
        here = holder[key]
    kind = rng.randrange(4)
    if kind == 0 and holder[key] is not value:
        del holder[key]
    elif kind == 1 and isinstance(here, dict):
        here[str(rng.choice(VALUES))[:20]] = rng.choice(VALUES)
    elif kind == 2 and isinstance(here, list):
        here.insert(rng.randrange(len(here) + 1), rng.choice(VALUES))
    elif holder[key] is value:
        return rng.choice(VALUES)
    else:
        holder[key] = rng.choice(VALUES)
    return value


def text(value, rng):
    """JSON of a forged value, or damaged JSON."""
    if rng.random() < 0.5:
        return damaged(json.dumps(value).encode(), rng)
    for _ in range(rng.choice((1, 1, 3))):
        value = forged(value, rng)
    return json.dumps(value).encode()


@fuzzer("presets", tries=2000)
def presets(folder):
    def check(rng):
        path = folder / "preset.json"
        path.write_bytes(text(rng.choice((PRESET, {"settings": PRESET})), rng))
        parse_train(["--preset", str(path)])[0].check(1, ())

    return check


@fuzzer("spaces of settings to tune", tries=2000)
def spaces(folder):
    def check(rng):
        path = folder / "space.toml"
        path.write_bytes(damaged(SPACE.encode(), rng))
        space.read(str(path))

    return check


@fuzzer("metrics, config.json and the other files of a run folder", tries=60)
def run_folders(folder):
    names = ("config.json", "ranks.json", "DONE", "evaluation.json", "metrics.jsonl")
    good = folders.write_run(folder / "good", updates=6)
    (good / "DONE").write_text('{"reason": "target", "games": 4}')
    (good / "evaluation.json").write_text(
        '{"games": 9, "mean": 1.5, "ci95": [1, 2], "video": "x.mp4", "scores": [1, 2]}'
    )
    now = provenance.provenance([], 1, "x", {})

    def check(rng):
        run = folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(good, run)
        for name in rng.sample(names, rng.randint(1, 3)):
            lines = (run / name).read_bytes().splitlines(keepends=True) if name == "metrics.jsonl" else [b""]
            at = rng.randrange(len(lines))
            lines[at] = text(json.loads(lines[at] or (run / name).read_bytes()), rng) + rng.choice((b"\n", b""))
            (run / name).write_bytes(b"".join(lines))
        with contextlib.suppress(UsageError):
            page.make(read.runs([str(run)]))
        MetricsLog(str(run / "metrics.jsonl"), 3).write({"update": 4})
        there = RunFolder(str(run))
        provenance.changes((there.starts() or [None])[-1], now)
        there.begin({}, {})

    return check


@fuzzer("forged checkpoints with a valid checksum, resumed", tries=150)
def checkpoints(folder):
    with quiet():
        trainer = Trainer(World(), *parse_train([*CARTPOLE, "--run-dir", str(folder / "good")]))
        trainer.learn(trainer.play())
        trainer.save()
    _, arrays, facts = checkpoint_folder.load_newest(str(folder / "good"), print)

    def check(rng):
        changed = {name: array.copy() for name, array in arrays.items()}
        if rng.random() < 0.3:
            name = rng.choice(sorted(changed))
            kinds = (lambda a: a[:-1], lambda a: a[None], lambda a: a.astype("int64"), lambda a: a * float("inf"))
            changed[name] = rng.choice(kinds)(changed[name])
        path = folder / "forged.npz"
        checkpoint_file.save(str(path), changed, forged(facts, rng))
        shutil.rmtree(folder / "run", ignore_errors=True)
        Trainer(World(), *parse_train([*CARTPOLE, "--run-dir", str(folder / "run"), "--resume", str(path)]))

    return check


@fuzzer("the journal of a study", tries=100)
def journals(folder):
    path = folder / "tune.journal"
    study = Study(str(path), {"gamma": {"low": 0.9, "high": 0.99}}, 4, 0)
    study.check_same({"seed": 0})
    study.next_task()
    study.tell("complete", 1.5)
    good = path.read_bytes()

    def check(rng):
        for each in folder.glob("tune.*"):
            shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink()
        path.write_bytes(damaged(good, rng))
        study = Study(str(path), {"gamma": {"low": 0.9, "high": 0.99}}, 4, 0)
        study.check_same({"seed": 0})
        study.rows()

    return check


#: Observes random screens of random blobs, in every size of screen, until the number of them is reached.
SCREENS = """
import sys
import numpy as np
from pg_mpi.features.foreground import Scene
from pg_mpi.features.native_encoder import LIBRARY, NativeEncoder

assert LIBRARY is not None
rng, left = np.random.default_rng(int(sys.argv[1])), int(sys.argv[2])
while left > 0:
    height, classes = rng.choice((1, 2, 7, 16, 210, 250)), np.zeros(256, np.uint8)
    classes[1:9] = rng.integers(0, 4, 8)
    backgrounds = np.zeros((rng.integers(1, 4), height, 160), np.uint8)
    encoder = NativeEncoder(Scene(backgrounds, classes))
    for step in range(rng.integers(1, 40)):
        screen = np.zeros((height, 160), np.uint8)
        for _ in range(rng.choice((0, 1, 3, 30, 300))):
            y, x = rng.integers(-4, height), rng.integers(-4, 160)
            screen[max(y, 0) : y + rng.integers(1, 30), max(x, 0) : x + rng.integers(1, 30)] = rng.integers(0, 10)
        if rng.random() < 0.1:
            screen[:] = rng.integers(0, 256, screen.shape)
        if step == 0:
            encoder.start(screen)
        elif rng.random() < 0.1:
            other = NativeEncoder(Scene(backgrounds, classes))
            other.start(screen)
            encoder.restore(other.state())
        else:
            found = encoder.step(screen)
            assert (np.diff(found) > 0).all() and (len(found) == 0 or 0 <= found[0] <= found[-1] < encoder.size)
        left -= 1
"""


@fault("fuzz: encoder.c under the address and undefined-behaviour sanitizers", tries=1500, full=ENDLESS)
def encoder(outcome, folder, tries, seed):
    """Compiled by gcc into a copy of the package."""
    if not shutil.which("gcc"):
        return
    shutil.copytree(ROOT / "pg_mpi", folder / "pg_mpi", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    name = "libencoder" + sysconfig.get_config_var("EXT_SUFFIX")
    source = folder / "pg_mpi" / "features" / "encoder.c"
    flags = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-shared", "-fPIC"]
    flags.append(f"-DSOURCE={zlib.crc32(source.read_bytes())}u")
    subprocess.run(["gcc", *flags, "-o", source.with_name(name), source], check=True)
    sanitizer = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    environment = {**os.environ, "LD_PRELOAD": sanitizer, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(folder)}
    end = time.monotonic() + HOUR
    for first in range(0, tries, 1500):
        line = [sys.executable, "-c", SCREENS, str(seed + first), "1500"]
        result = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True)
        with outcome.attempt():
            assert result.returncode == 0, f"wrong: {result.stderr}"
        outcome.tries += 1499  # they are screens
        if time.monotonic() > end:
            break
