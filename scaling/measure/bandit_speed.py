"""Time the bandit testbed in three ways: ``python -m scaling.measure.bandit_speed``.

``story``: an agent with its values in a dict, settings read from an omegaconf object in the loop, debug lines that are
formatted but not printed, and an argmax with four type conversions. A profiler found the last three, which made it 30
times slower. ``honest``: the same agent in plain Python and numpy, one run after the other, also with each of the slow
parts alone. ``ours``: ``pg_mpi.bandit`` on one rank, then on several, with Amdahl's law fitted to the speeds.
"""

import json
import logging
import os
import statistics
import sys
import time
from types import SimpleNamespace

import numpy as np

from pg_mpi.bandit import plan, testbed
from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import Parser, checked, integer
from pg_mpi.config.random_streams import BANDIT, stream
from pg_mpi.files.csv_table import make_folder, write_csv
from pg_mpi.files.figure_file import picture
from pg_mpi.mpi.launch.mpirun import start_command
from scaling import cli
from scaling.measure import timed_run
from scaling.model import scaling_laws
from scaling.pictures import speed
from scaling.sweep import counts_of

KIND = ("bandit-speed", 1)
ARMS, STEPS, EPSILON, SEED = 10, 1000, 0.1, 0
OURS = f"epsilon:{EPSILON:g}"
PATIENCE = 600.0  # seconds
_log = logging.getLogger("bandit")


def parser():
    """Create the argument parser."""
    p = Parser(
        prog="python -m scaling.measure.bandit_speed",
        description="Time the epsilon-greedy bandit (10 arms, 1,000 steps), nanoseconds per step of a run: a slow "
        "agent (story), a loop in plain Python and numpy (honest), the loop with each slow part alone, and "
        "pg_mpi.bandit (ours), in turns. Then time pg_mpi.bandit on several ranks. The command starts its own ranks.",
        epilog="Needs the extra compare (omegaconf). Run nothing else on the machine meanwhile.",
        allow_abbrev=False,
    )
    p.add_argument("--runs", default="2000", metavar="R", help="runs of pg_mpi.bandit on one rank (default: 2000)")
    p.add_argument("--loop-runs", default="20", metavar="R", help="runs of each of the loops (default: 20)")
    p.add_argument("--repeats", default="5", metavar="K", help="repeats; medians are reported (default: 5)")
    p.add_argument("--ranks", default="1,2", metavar="N,N", help="ranks of pg_mpi.bandit (default: 1,2)")
    p.add_argument("--out", metavar="FOLDER", help="also write bandit.csv and bandit.png there (extra: plot)")
    p.add_argument("--json", action="store_true", help="also print the result as a last line of JSON")
    return p


# -- one run at a time --------------------------------------------------------------------------------------


def greedy(values, rng):
    """The arm of the highest value, with random tie-breaking."""
    best = np.flatnonzero(values == values.max())
    return best[0] if len(best) == 1 else rng.choice(best)


def converting_greedy(values, rng):
    """``greedy`` through a list, an array, a list again and a list of keys, as in the story."""
    values = values if isinstance(values, dict) else dict(enumerate(values))
    array = np.array(list(values.values()))
    best = np.argwhere(array == np.max(array)).flatten().tolist()
    return list(values.keys())[np.random.choice(best) if len(best) > 1 else best[0]]


def loop(settings, rng, values, choose=greedy, chatty=False):
    """Run the agent once. Returns its average reward. ``values``: array or dict of estimates, one per arm, all 0."""
    means = rng.standard_normal(settings.bandit.arms)
    counts = np.zeros(settings.bandit.arms)
    total = 0.0
    for step in range(settings.run.steps):
        explores = rng.random() < settings.agent.epsilon
        arm = int(rng.integers(settings.bandit.arms)) if explores else choose(values, rng)
        reward = means[arm] + rng.standard_normal()
        counts[arm] += 1
        values[arm] += (reward - values[arm]) / counts[arm]
        total += reward
        if chatty:
            _log.debug(f"step {step}: pulled {arm} for {reward}, values {values}, counts {counts}")
    return total / settings.run.steps


def ways(hear=lambda average: None):
    """Loops to time, by name: functions of a number of runs. ``hear``: called with each run's average reward.

    Raises ``UsageError`` without omegaconf.
    """
    try:
        from omegaconf import OmegaConf
    except ImportError:
        raise UsageError("the story loop needs omegaconf: pip install 'pg_mpi[compare]'") from None
    facts = {"bandit": {"arms": ARMS}, "run": {"steps": STEPS}, "agent": {"epsilon": EPSILON}}
    plain = SimpleNamespace(**{name: SimpleNamespace(**part) for name, part in facts.items()})
    slow = OmegaConf.create(facts)

    def times(settings, in_dict=False, **how):
        def play(runs):
            for run in range(runs):
                values = dict.fromkeys(range(ARMS), 0.0) if in_dict else np.zeros(ARMS)
                hear(loop(settings, stream(SEED, BANDIT, run), values, **how))

        return play

    return {
        "story": times(slow, in_dict=True, choose=converting_greedy, chatty=True),
        "honest": times(plain),
        "honest + config": times(slow),
        "honest + f-strings": times(plain, chatty=True),
        "honest + argmax": times(plain, choose=converting_greedy),
    }


# -- the measurement ----------------------------------------------------------------------------------------


def ours(runs):
    """Play ``runs`` runs with ``pg_mpi.bandit`` in this process."""
    task = SimpleNamespace(arms=ARMS, steps=STEPS, mean=0.0, drift=0.0, seed=SEED)
    testbed.play(task, [plan.parse(OURS)], range(runs))


def in_turns(loops, loop_runs, runs, repeats):
    """Nanoseconds per step of a run for each way, a list of ``repeats`` each."""
    found = {name: [] for name in [*loops, "ours"]}
    for repeat in range(repeats):
        for name in list(found)[:: -1 if repeat % 2 else 1]:
            count = runs if name == "ours" else loop_runs
            begun = time.perf_counter()
            loops.get(name, ours)(count)
            found[name].append((time.perf_counter() - begun) * 1e9 / (count * STEPS))
        print(f"turn {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return found


def over_ranks(counts, runs, repeats):
    """Time ``pg_mpi.bandit`` on each number of ranks in turns: (ranks, steps of runs per second) each."""
    found = []
    for repeat in range(repeats):
        for ranks in counts:
            line = [*start_command("mpirun", ranks), sys.executable, "-m", "pg_mpi.bandit", "--json"]
            line += ["--methods", OURS, "--runs", str(runs), "--steps", str(STEPS)]
            code, output, errors = timed_run.run(line, limit=PATIENCE)
            if code:
                raise RuntimeError(f"pg_mpi.bandit on {ranks} ranks ended with code {code}\n{errors.strip()}")
            found.append((ranks, runs * STEPS / json.loads(output.splitlines()[-1])["seconds"]))
        print(f"ranks, turn {repeat + 1} of {repeats}", file=sys.stderr, flush=True)
    return found


def main(argv):
    """Measure and report. Returns the exit code."""
    cli.refuse_mpirun()
    args = parser().parse(argv)
    runs, loop_runs, repeats = (
        checked(integer(), getattr(args, name), f"--{name.replace('_', '-')}")
        for name in ("runs", "loop_runs", "repeats")
    )
    counts = checked(counts_of, args.ranks, "--ranks")
    loops = ways()
    if args.out:
        make_folder(args.out)
    turns = in_turns(loops, loop_runs, runs, repeats)
    ns = {name: statistics.median(each) for name, each in turns.items()}
    speeds = over_ranks(counts, 10 * runs, repeats)
    sps = {ranks: statistics.median(value for n, value in speeds if n == ranks) for ranks in counts}
    result = {
        **{f"{name}_ns": ns[name] for name in ("story", "honest", "ours")},
        **{f"{name.split()[-1]}_ns": ns[name] for name in ns if "+" in name},
        "speedup_story": ns["story"] / ns["ours"],
        "speedup": ns["honest"] / ns["ours"],
        "ranks": counts,
        "sps": list(sps.values()),
        "fit": scaling_laws.fit(scaling_laws.AMDAHL, *zip(*speeds)),
    }
    _tell(result, ns)
    if args.out:
        facts = cli.facts("scaling.measure.bandit_speed", argv) | {
            name: result[name] for name in ("ranks", "sps", "fit")
        }
        rows = [{"way": name, "repeat": k, "ns": value} for name, each in turns.items() for k, value in enumerate(each)]
        write_csv(os.path.join(args.out, "bandit.csv"), *KIND, rows, facts)
        picture(speed.draw_ways, os.path.join(args.out, "bandit.png"), ns)
    if args.json:
        print(json.dumps(result | {"turns": turns}), flush=True)
    return 0


def _tell(result, ns):
    print(f"{'way':<24}{'ns for a step of a run':>24}{'times ours':>12}")
    for name, value in ns.items():
        print(f"{name:<24}{value:>24,.0f}{value / ns['ours']:>12.1f}")
    for ranks, sps in zip(result["ranks"], result["sps"]):
        print(f"{ranks} ranks: {sps / 1e6:.2f} million steps of runs a second")
    print(scaling_laws.table([result["fit"]]), flush=True)


if __name__ == "__main__":
    cli.run(main)
