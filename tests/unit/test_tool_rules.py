"""Scores, tuning, reports, fits and measurements by literal cases, and both encoders at their limits."""

import io
import math
import time

import numpy as np
import pytest
from folders import line, write_lines
from test_verdict import MEMORY, QUICK, bound

from pg_mpi import api
from pg_mpi.bandit.__main__ import Result
from pg_mpi.config.command_line import parse_train
from pg_mpi.config.settings import TrainConfig
from pg_mpi.doctor import __main__ as doctor
from pg_mpi.env import atari_spec, gym_spec
from pg_mpi.features.encoder import BlobEncoder
from pg_mpi.features.foreground import Scene
from pg_mpi.features.native_encoder import NativeEncoder
from pg_mpi.files.metrics_file import Progress
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import RoundLength
from pg_mpi.learning.self_imitation import source as sil
from pg_mpi.mpi.world import World
from pg_mpi.policy.mlp import MLP
from pg_mpi.policy.sparse_mlp import SparseMLP
from pg_mpi.report import page, read
from pg_mpi.run import evaluations
from pg_mpi.run.trainer import Trainer
from pg_mpi.tune.study import Study
from pg_mpi.tune.trial import PRUNED, Judge
from scaling.measure import efficiency, timed_run
from scaling.model import scaling_laws
from scaling.model.virtual.world import Hub
from scaling.score import learning_curves

SCENE = Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8))


class Constant:
    def sample(self, seen, rngs, preferences):
        return [(4.0, 1, -1.0)] * len(seen)

    def value(self, observation):
        return 4.0


def test_scores_are_raw():
    config, _ = parse_train(["--env-id", "ALE/Freeway-v5"])
    env = Env(0, config, atari_spec.AtariSpec(SCENE, [0, 2, 5]))
    rewards = iter([0, 7, -3, 0.5])
    env.game.step = lambda code: next(rewards)
    Player([env], [0, 2, 5], config, PhaseTimer()).play(Constant(), RoundLength(4, np.inf))
    assert (env.score, env.steps) == (4.5, 4)


def test_study_prunes_the_worse(tmp_path):
    def study():
        return Study(str(tmp_path / "tune.journal"), {"gamma": {"low": 0.9, "high": 0.99}}, 9, 0)

    decisions = []
    for score in (10.0, 0.0, 20.0):
        each = study()
        each.next_task()
        decisions.append(each.report(1, score))
        each.report(2, score + 1)
        each.tell("pruned")
    assert decisions == [False, True, False] and [row.score for row in study().rows()] == [11.0, 1.0, 21.0]


def test_judge():
    asked = []
    judge = Judge(8.0, lambda *each: asked.append(each) or each[0] == 2)
    found = [judge(seconds, 5.0) for seconds in (0.5, 1.5, 1.6, 2.5)]
    assert found == [None, None, None, PRUNED] and asked == [(1, 5.0), (2, 5.0)]
    assert judge(8.0, None) == "complete"


def tell(ranks, *flags):
    return doctor._tell(doctor.parser().parse(list(flags)), ranks, {"allreduce_s": QUICK, "memory_gb_s": MEMORY})


def test_doctor_codes(capsys):
    noted = bound(0, 1, why_numpy="no compiler")
    assert tell(noted, "--strict", "--expect-ranks", "2") == 0 and "note numpy" in capsys.readouterr().out
    assert tell(noted, "--strict", "--expect-ranks", "3") == 1 and "FAULT ranks" in capsys.readouterr().out


def test_report_speed(tmp_path):
    lines = [line(n, seconds=float(s)) | {"sps": 100.0 * n} for n, s in enumerate([1, 1, 2, 4, 2, 1], start=1)]
    write_lines(tmp_path, lines)
    (run,) = read.runs([str(tmp_path)])
    assert page._row(run)[3] == "373"  # (100 + 200 + 2 * 300 + 4 * 400 + 2 * 500 + 600) / 11


def test_left_out_sign():
    found = scaling_laws.fit(scaling_laws.LINE, [1, 2, 4], [100, 200, 200])
    assert found["left_out"] == {
        "ranks": 4,
        "measured": 200.0,
        "predicted": pytest.approx(400),
        "error": pytest.approx(1),
    }


@pytest.mark.parametrize("coherency", [0.0005, 0.02])
def test_needed(coherency):
    ranks = [1, 2, 4, 8]

    def speed(n):
        return 400 * n / (1 + 0.03 * (n - 1) + coherency * n * (n - 1))

    target = 0.999 * max(map(speed, range(1, 200)))
    found = scaling_laws.fit(scaling_laws.USL, ranks, list(map(speed, ranks)), [target])["needed"][0]["ranks"]
    assert found == next(n for n in range(1, 200) if speed(n) >= target)


def test_band():
    rng = np.random.default_rng(0)
    ranks = np.array([1, 1, 2, 2, 4, 4, 8, 8])
    sps = 300 * ranks / (1 + 0.05 * (ranks - 1)) * np.exp(0.03 * rng.standard_normal(8))
    _, low, high = scaling_laws.band(scaling_laws.AMDAHL, ranks, sps, [1])
    found = scaling_laws.fit(scaling_laws.AMDAHL, ranks, sps)["parameters"]["speed"]
    assert (low[0], high[0]) == pytest.approx((found["low"], found["high"]))


def test_measured_by_hand():
    lines = [
        {
            "wall_s": w,
            "env_steps": s,
            "update": u,
            "ranks": 2,
            "phase_s": {"wait": p},
            "phase_max_s": {"wait": 2 * p},
            "updates_per_s": 1.0 / d,
            "exchanges": 8 * u,
            "bytes_exchanged": 80 * u,
            "rss_mb": 50.0 + u,
            "cpu_util": c,
            "gflops": 1.0,
        }
        for u, (w, d, s, p, c) in enumerate(
            [(3, 3, 100, 2.0, 0.1), (5, 2, 300, 0.1, 0.2), (6, 1, 400, 0.5, 0.6), (9, 3, 900, 0.5, 1.0)], start=1
        )
    ]
    found = timed_run.measured(lines, 4)
    assert (found["sps"], found["between_updates"], found["updates_per_s"]) == (150, [2, 4], 0.5)
    assert (found["exchanges_per_update"], found["bytes_per_update"], found["rss_mb"]) == (8, 80, 54)
    assert found["cpu_util"] == pytest.approx((0.6 + 3 * 1.0) / 4)
    assert found["phase_share"] == {"wait": 0.25, "other": 0.75} and found["phase_max_share"] == {"wait": 0.5}


def test_efficiency_by_hand():
    def result(ranks, sps):
        return dict.fromkeys(efficiency.NUMBERS, 0.0) | {
            "ranks": ranks,
            "sps": sps,
            "phase_share": {"wait": 0.1},
            "phase_max_share": {"wait": 0.2},
        }

    rows = efficiency.summary(
        [result(2, 100.0), result(4, 130.0), result(2, 120.0), result(4, 150.0), result(4, 400.0), result(2, 10.0)]
    )
    assert [(row["ranks"], row["sps"], row["efficiency"], row["repeats"]) for row in rows] == [
        (2, 100, 1, 3),
        (4, 150, 0.75, 3),
    ]


def test_limits_of_both_encoders():
    def screen(columns, rows, step):
        drawn = np.zeros((210, 160), np.uint8)
        drawn[np.ix_(rows, columns)] = 7
        return drawn

    one, other = BlobEncoder(SCENE), NativeEncoder(SCENE)
    for moving in (16, 17):
        for method, shift in (("start", 0), ("step", 1)):
            drawn = np.zeros((210, 160), np.uint8)
            for k in range(moving):
                drawn[10 * k : 10 * k + 2, 20 + shift * (1 + k % 5) : 24 + shift * (1 + k % 5)] = 7
            np.testing.assert_array_equal(getattr(other, method)(drawn), getattr(one, method)(drawn))
        assert len(one.blobs) == moving and all(blob.moves for blob in one.blobs)
    for runs in (1023, 1024, 1025):
        drawn = np.zeros((210, 160), np.uint8)
        cells = [(row, column) for row in range(210) for column in range(0, 80, 16)][:runs]  # five columns of blobs
        for row, column in cells:
            drawn[row, column] = 7
        np.testing.assert_array_equal(other.start(drawn), one.start(drawn))
        assert bool(one.blobs) == (runs <= 1024)


def test_mlp_starts_uniform():
    net = MLP(4, 3, 0, np.random.default_rng(0))
    outputs = net.forward(np.random.default_rng(1).normal(size=(50, 4)))
    assert np.abs(outputs[:, :3]).max() < 0.1 < np.abs(outputs[:, 3]).max()


def cartpole(tmp_path, *more):
    flags = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "8", "--run-dir", str(tmp_path / "run"), *more]
    return Trainer(World(), *parse_train(flags))


def test_evaluation_has_the_seed_of_the_run(tmp_path):
    t = cartpole(tmp_path)
    one, other = (
        evaluations.evaluate(
            World(),
            parse_train(["--env-id", "CartPole-v1", "--hidden", "4", "--seed", s])[0],
            t.env_spec,
            t.learner.policy,
        )
        for s in "01"
    )
    assert one != other


def test_skipped_in_a_row(tmp_path):
    t, found = cartpole(tmp_path), []
    policy = t.learner.policy
    backward = policy.backward
    for bad in (True, True, False, True):

        def faulty(theta, x, hidden, d_outputs, out, bad=bad):
            backward(theta, x, hidden, d_outputs, out)
            out[0] = np.nan if bad else out[0]

        policy.backward = faulty
        t.learn(t.play())
        found.append((t.learner.skipped, t.learner.skipped_in_row))
    assert found == [(1, 1), (2, 2), (2, 0), (3, 1)]


def test_stop_of_one_rank_discards_the_round_of_all(tmp_path):
    config = parse_train(
        ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "8", "--run-dir", str(tmp_path / "run")]
    )

    def main(world):
        world.divides = False
        return Trainer(world, *config).play(world.rank == 1)

    assert Hub(2, lambda size: 0.0).run(main) == [None] * 2


def test_stop_ends_an_evaluation(tmp_path):
    t = cartpole(tmp_path, "--evaluate-every", "1")
    t.learn(t.play())
    t.report()
    t.after_update(True)
    assert not (tmp_path / "run" / "evaluations.json").exists()
    assert (tmp_path / "run" / "checkpoints").exists()


def test_progress_speed():
    stream = io.StringIO()
    progress = Progress(TrainConfig(), float, live=False, stream=stream)
    metrics = {"update": 7, "env_steps": 9000, "sps": 4321.0, "games": 12, "return_mean": -20.25, "wall_s": 3.0}
    progress.show(metrics)
    progress.show(metrics | {"update": 8, "env_steps": 10_000, "wall_s": 5.0}, force=True)
    assert "500 steps/s" in stream.getvalue().splitlines()[1]


def test_wall_counts_from_the_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun = time.monotonic()
    api.train({"env_id": "CartPole-v1", "hidden": 4, "num_steps": 8, "total_timesteps": 64, "run_dir": "run"})
    assert 0 < api.metrics("run")["wall_s"][-1] < time.monotonic() - begun


def test_bandit_summary():
    reward, optimal = np.arange(250.0), np.linspace(0, 1, 250)
    from pg_mpi.bandit import plan

    found = Result(plan.parse("epsilon:0.1"), (reward, reward), (optimal, optimal / 10), (1.5, 0.1)).summary()
    assert found["reward_end"] == 199.5 and found["optimal_end"] == pytest.approx(optimal[-100:].mean())


def test_replay_is_clipped():
    source = sil.SelfImitation(SparseMLP(20, 3, 2), TrainConfig(max_grad_norm=0.3), World(), PhaseTimer())
    source.prepare([])
    limits = []
    source.learn(None, lambda buffers, weight, limit=math.inf: limits.append(limit))
    assert limits == [0.3] * 4


def test_terminated_and_truncated_terminates():
    config = parse_train(["--env-id", "own_envs:Truncating"])[0]
    game = gym_spec.make_spec(config).make_game(config, np.random.default_rng(0))
    step = game._env.step
    game._env.step = lambda action: (*step(action)[:2], True, True, {})
    game.step(0)
    assert game.over() and not game.truncated()


def test_thin():
    lines = [dict.fromkeys(learning_curves.COLUMNS, 0.0) | {"wall_s": float(n)} for n in range(1, 152)]
    rows = learning_curves.thin(lines)
    assert [row[0] for row in rows][:2] == [2.0, 4.0] and rows[-1][0] == 151.0 and len(rows) == 76
