"""``scaling.measure.ceiling``: parts replay the recorded games, stubs are undone, and results are consistent."""

import dataclasses
import json

import numpy as np
import pytest
from jobs import SMALL, one_line, printed, tool

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.errors import RunError
from pg_mpi.mpi.world import World
from scaling.measure.ceiling import breakdown, parts, stubs

KEYS = {"play_ratio", "ratio", "ranks", "preset", "parts", "seconds"}
KEYS |= {"repeats", "commit", "command", "versions", "cpu", "env_steps"}
QUICK = ["--seconds", "0.2", "--repeats", "1", "--json", *SMALL, "--max-frames", "1200"]


@pytest.fixture(scope="module")
def stub_world():
    return stubs.StubWorld(World())


@pytest.fixture(scope="module")
def bench(stub_world, tmp_path_factory):
    """A small trainer of one rank and two envs after its first update. The frame cap ends the games of a round."""
    folder = tmp_path_factory.mktemp("bench")
    args = [*SMALL, "--max-frames", "1200", "--envs-per-rank", "2", "--run-dir", str(folder / "run")]

    bench = parts.Bench(stub_world, *parse_train(args))
    update(bench)
    bench.player.envs[0].preference = [1.0, -1.0, 0.5, 0.0, 0.0, -0.5]
    bench.mark()
    return bench


@pytest.fixture
def scripts(bench):
    bench.put_back()
    return bench.record()


def update(bench):
    bench.learn(bench.play())
    bench.report()
    return bench.learner.policy.theta.copy()


def test_replays_reach_the_recorded_scores(bench, scripts):
    assert all(len(script.games) == 2 and script.games[0][1] == len(script.codes) for script in scripts)
    assert scripts[0].codes != scripts[1].codes
    assert sum(env.preference is not None for env in bench.player.envs) == 1
    played = [env.trajectory.actions.tolist() for env in bench.player.envs]
    drawn = []

    class Recording:
        def sample(self, *args):
            found = bench.network.sample(*args)
            if len(drawn) < len(played[0]):
                drawn.append(found[0][1])
            return found

    for replay in (
        parts.emulate,
        parts.emulate_and_encode,
        lambda envs, scripts: parts.emulate_and_encode(envs, scripts, Recording()),
    ):
        bench.rewind()
        replay(bench.player.envs, scripts)  # raises if it differs from the recording
    assert drawn == played[0], "the actions of the first env"
    bench.rewind()
    bench.play()
    assert bench.scripts() == scripts


def test_rewound_round_has_the_recorded_length(bench, scripts):
    bench.counters.recent.extend([(0.0, 150)] * 100)  # shorter games make shorter rounds
    bench.rewind()
    bench.play()
    assert bench.scripts() == scripts


def test_replay_that_differs_from_the_recording_raises(bench, scripts):
    (score, steps), *others = scripts[1].games
    wrong_score = [scripts[0], dataclasses.replace(scripts[1], games=[(score + 1, steps), *others])]
    too_short = [scripts[0], dataclasses.replace(scripts[1], codes=scripts[1].codes[:-1])]
    for replay in (parts.emulate, parts.emulate_and_encode):
        for changed in (wrong_score, too_short):
            bench.rewind()
            with pytest.raises(RunError, match="left the recorded game"):
                replay(bench.player.envs, changed)


def test_training_after_a_stub_is_unchanged(bench, stub_world, scripts):
    theta = update(bench)
    bench.put_back()
    stub_world.local = True
    update(bench)
    stub_world.local = False
    bench.put_back()
    np.testing.assert_array_equal(update(bench), theta)


def test_stub_world_returns_local_results_for_all_ranks():
    world = World()
    world.rank, world.size = 1, 3
    stub_world = stubs.StubWorld(world)
    array, rows = np.array([1.0, 2.0]), np.arange(9.0).reshape(3, 3) ** 2
    stub_world.local = True
    assert stub_world.sum_(array) is array and array.tolist() == [3.0, 6.0]
    assert stub_world.max_(array).tolist() == [3.0, 6.0]
    assert stub_world.any(0, 1) == [False, True]
    assert stub_world.gather_all("a") == ["a"] * 3
    stub_world.barrier()
    assert stub_world.sum_rows(rows, slice(1, 2), np.empty(1)).tolist() == [48.0]
    with pytest.raises(AttributeError, match="Bcast"):  # no communicator
        stub_world.broadcast_(array)
    stub_world.local = False
    assert stub_world.sum_rows(rows, slice(1, 2), np.empty(1)).tolist() == [1.0 + 16 + 49]


def test_costs_and_ratios_by_hand():
    sps = {name: [1000.0 - 10 * k] for k, (name, *_) in enumerate(breakdown.PARTS)}
    sps |= {"emulator": [900.0, 1000.0, 1200.0], "play": [810.0, 950.0, 960.0]}
    sps |= {"train": [450.0, 500.0, 600.0], "no_exchange": [800.0]}
    result = breakdown.summary(sps, ranks=2)
    assert result["ratio"] == 0.5
    assert result["play_ratio"] == 0.9, "the median of 0.9, 0.95 and 0.8, not 950 / 1000"
    assert result["fastest"] == {"play_ratio": 0.8, "ratio": 0.5}
    rows = {row["part"]: row for row in result["parts"]}
    assert rows["emulator"]["us_per_step"] == rows["emulator"]["cost_us"] == 2000.0
    assert rows["emulator"]["spread"] == 0.3 and rows["features"]["spread"] == 0
    assert rows["features"]["cost_us"] == pytest.approx(2e6 / 990 - 2000, abs=0.01)
    assert rows["train"]["cost_us"] == pytest.approx(4000 - 2e6 / 950, abs=0.01)
    assert rows["no_exchange"]["cost_us"] == 1500.0


@pytest.mark.parametrize("ranks, flags", [(1, ["--sync", "steps", "--num-steps", "512"]), (2, ["--out", "new/folder"])])
def test_measurement_writes_consistent_results(tmp_path, ranks, flags):
    result = tool("measure.ceiling", tmp_path, "--ranks", ranks, *QUICK, *flags)
    lines = result.stdout.splitlines()
    assert [line.startswith("{") for line in lines] == [False] * (len(lines) - 1) + [True]
    found = printed(result)
    assert found.keys() >= KEYS
    assert (found["ranks"], found["preset"], found["seconds"], found["repeats"]) == (ranks, "default", 0.2, 1)
    assert [row["part"] for row in found["parts"]] == [name for name, *_ in breakdown.PARTS]
    speeds = {row["part"]: row["sps"] for row in found["parts"]}
    assert found["ratio"] == pytest.approx(speeds["train"] / speeds["emulator"], rel=0.001)
    assert found["play_ratio"] == pytest.approx(speeds["play"] / speeds["emulator"], rel=0.001)
    assert [path.name for path in tmp_path.iterdir()] == ["new"] * (ranks == 2), "the run folder was not removed"
    if ranks == 2:
        assert json.loads((tmp_path / "new/folder/ceiling.json").read_text()) == found


def test_error_of_the_ranks_is_one_line(tmp_path):
    result = tool("measure.ceiling", tmp_path, "--ranks", 1, "--resume", "nowhere", code=2)
    assert "--resume nowhere: no checkpoint is there" in one_line(result)
