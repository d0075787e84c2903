"""``scaling.model.predict``: the model of an update equals sums by hand; costs are read from a run."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from jobs import SMALL, command, printed, refusal, run, tool

from pg_mpi.config.errors import UsageError
from scaling.model.exchange import Network, allreduce
from scaling.model.predict import probe
from scaling.model.predict.__main__ import main, networks_of
from scaling.model.predict.measured import Costs, Table, crowded, levelled
from scaling.model.predict.model import SMALL as SMALL_EXCHANGES
from scaling.model.predict.model import lengths, predict, taking_turns

SETTINGS = {
    "sync": "episode",
    "envs_per_rank": 1,
    "games_per_update": 1,
    "num_steps": 256,
    "method": "clipped",
    "update_epochs": 4,
    "minibatch_size": 500,
    "max_minibatches": 8,
    "anneal_timesteps": 0,
    "hidden": 10,
    "max_frames": 8000,
    "frame_skip": 4,
    "checkpoint_every": 50,
    "elastic": False,
}
COSTS = Costs(
    ranks=1,
    settings=SETTINGS,
    lengths=np.array([1000.0]),
    play_s=2e-4,
    noise=0.0,
    sample_s=1e-5,
    byte_s=1e-9,
    call_s=5e-4,
    step_s=2e-9,
    save_s=1e-9,
    round_s=1e-3,
    rows=(1e6, 1000.0, 0.5),
    most_bytes=4_000_000,
    whole_bytes=12_000_000,
    state_bytes=20_000,
)
FREE = (Network(1e-15, 1e-18, 0.0),) * 2


def test_update_by_hand():
    """1,000 steps of 200 us, then 4 epochs of 2 minibatches of 500 samples, with a gradient of 1 MB each."""
    found = predict(COSTS, 1, FREE)
    save = (12e6 + 20e3) * 1e-9 / 50
    seconds = 1000 * 2e-4 + 4 * 1000 * 1e-5 + 8 * (1e6 * (1e-9 + 2e-9) + 5e-4) + 1e-3 + save
    assert found["sps"] == pytest.approx(1000 / seconds, rel=1e-6)
    assert found["exchanges_per_update"] == 8 and found["bytes_per_update"] == pytest.approx(8e6)
    assert found["wait_fraction"] == 0 and found["save_fraction"] == pytest.approx(save / seconds)
    shared = predict(COSTS, 4, FREE, node=1, cores=2)
    seconds = (
        2 * (0.2 + 0.04 + 4 * 8 * (2e6 * 3e-9 + 5e-4) + 1e-3) + save
    )  # four times the samples touch twice the rows
    assert shared["sps"] == pytest.approx(4000 / seconds, rel=1e-6)


def test_ranks_of_a_node_divide_the_step_and_share_its_memory():
    """4 ranks: 32 exchanges of 2 MB. At 1 GB/s a gradient passes 3 times, and a step 33 times, each by 4 ranks."""
    save = (12e6 + 4 * 20e3) * 1e-9 / 50
    played = 0.2 + 0.04 + 1e-3 + save
    free = predict(COSTS, 4, FREE)
    assert free["update_s"] == pytest.approx(played + 32 * (2e6 * (1e-9 + 2e-9 / 4) + 5e-4), rel=1e-4)
    scarce = predict(COSTS, 4, FREE, memory=1e9)
    learned = 32 * (4 * 2e6 * (3 + 1 + 33 / 4) * 1e-9 + 5e-4)  # gradient, exchange, step
    assert scarce["update_s"] == pytest.approx(played + learned, rel=1e-4)
    assert scarce["optimizer_fraction"] == pytest.approx(32 * 2e6 * 33e-9 / scarce["update_s"], rel=1e-4)
    apart = predict(COSTS, 4, FREE, node=2)  # two nodes of two ranks
    assert apart["optimizer_fraction"] * apart["update_s"] == pytest.approx(32 * 2e6 * 2e-9 / 2, rel=1e-4)


@pytest.mark.parametrize(
    "cores, yields, finished",
    [
        (4, True, [1, 1, 2, 5]),
        (2, False, [2, 2, 4, 10]),
        (2, True, [2, 2, 3, 6]),  # four ranks share the cores for 2 s, then two have a core each
        (1, True, [4, 4, 6, 9]),
    ],
)
def test_ranks_on_shared_cores_take_turns(cores, yields, finished):
    assert taking_turns(np.array([5.0, 1.0, 1.0, 2.0]), cores, yields).tolist() == finished


@pytest.mark.parametrize(
    ("hosts", "node", "memory"), [("aa", 2, 40.0), ("aa", 128, None), ("ab", 1, 20.0), ("ab", 2, None)]
)
def test_memory_is_that_of_a_doctor_on_all_ranks_of_a_node(tmp_path, hosts, node, memory):
    path = write_report(tmp_path, hosts)
    (inside, between), found = networks_of(f"doctor={path}", node)
    assert found == memory and (inside == between) == (hosts == "aa")


def test_doctor_on_several_ranks_of_several_hosts_is_refused(tmp_path):
    with pytest.raises(UsageError, match="start the doctor with one rank on each host"):
        networks_of(f"doctor={write_report(tmp_path, 'aabb')}", 2)


def write_report(folder, hosts):
    """Write a report of the doctor with a rank on each of ``hosts``, and return its path."""
    report = {"ranks": [{"host": host} for host in hosts], "memory_gb_s": {"alone": 25.0, "together": 20.0}}
    report["allreduce_s"] = {"8": 2e-6, "65536": 3e-5, "1048576": 4e-4, "4194304": 2e-3}
    (folder / "doctor.json").write_text(json.dumps(report))
    return folder / "doctor.json"


def test_network_time_is_that_of_all_allreduces():
    net = Network(5e-5, 1e-8)
    free, slow = predict(COSTS, 4, FREE, node=1), predict(COSTS, 4, (None, net), node=1)
    difference = slow["update_s"] - free["update_s"]
    expected = 32 * allreduce(4, 2e6, net) + (SMALL_EXCHANGES + 8 + 64) * allreduce(4, 8, net)
    expected += allreduce(4, COSTS.most_bytes / 40, net)
    assert difference == pytest.approx(expected, rel=0.02)  # the rest: counters and checkpoints


FREE_ROUNDS = dict.fromkeys(("sample_s", "byte_s", "call_s", "step_s", "save_s", "round_s"), 0.0)


def test_ranks_of_reinforce_wait_for_the_longest_game():
    """Games have 700 or 900 steps with equal probability. The longest of N has 900, except in 1 of 2^N rounds."""
    whole = SETTINGS | {"method": "reinforce"}
    costs = dataclasses.replace(COSTS, settings=whole, lengths=np.array([700.0, 900.0]), **FREE_ROUNDS)
    for ranks in (2, 4):
        found = predict(costs, ranks, FREE, node=1)
        longest = 900 - 200 * 0.5**ranks
        assert found["wait_fraction"] == pytest.approx(1 - 800 / longest, abs=0.02)
        assert found["sps"] == pytest.approx(ranks * 800 / (longest * 2e-4), rel=0.02)


@pytest.mark.parametrize("games, steps", [([700, 900], 800), ([1000, 1400], 1024)])
def test_rounds_are_as_long_as_the_mean_game(games, steps):
    costs = dataclasses.replace(COSTS, lengths=np.array(games, dtype=float), **FREE_ROUNDS)
    found = predict(costs, 3, FREE, node=1)
    assert found["wait_fraction"] == 0 and found["samples_per_update"] == 3 * steps


@pytest.mark.parametrize(
    "ranks, cores, message",
    [(2, "0-1", None), (1, "0-1", None), (3, "0-1", "3 ranks on 2 cores of a"), (4, "unknown", None)],
)
def test_ranks_on_shared_cores_are_reported(ranks, cores, message):
    hosts = [{"host": "b", "ranks": 3, "cores": "0,3-4"}, {"host": "a", "ranks": ranks, "cores": cores}]
    assert crowded({"mpi": "Open MPI v5", "places": {"by_host": hosts}}) == message


def test_drawn_lengths_have_the_distribution_of_the_sample():
    sample = np.concatenate((np.full(90, 800.0), np.linspace(1000, 1200, 10)))
    drawn = lengths(sample, 100_000, 2000.0, np.random.default_rng(0))
    assert drawn.max() == 2000 and np.mean(drawn == 800) == pytest.approx(0.9, abs=0.01)
    assert drawn.mean() == pytest.approx(sample.mean(), rel=0.02)


def test_costs_of_synthetic_updates_are_recovered():
    names = ("env_steps", "exchanges", "bytes_exchanged", "wall_s", "games")
    rng, lines, total = np.random.default_rng(0), [], dict.fromkeys(names, 0.0)
    for _ in range(40):
        samples = rng.integers(800, 3000)
        phases = dict.fromkeys(("reset", "features", "inference", "optimizer", "allreduce", "wait", "record"), 0.0)
        phases |= {"emulator": samples / 2 * 3e-4, "gradient": 0.1}
        for name, value in zip(names, (samples, 8, 8e3 * samples, sum(phases.values()) + samples / 2 * 1e-4, 2)):
            total[name] += value
        lines.append({**total, "ranks": 2, "phase_s": phases, "phase_max_s": phases})
    table = Table(lines)
    step_s, noise = table.playing()
    assert step_s == pytest.approx(4e-4) and noise < 1e-6
    size, samples = table.exchanged()
    assert size == pytest.approx(1e3 * samples) and samples == np.sort(table.samples)[len(table.samples) // 2]


def test_growth_exponent_of_touched_rows(monkeypatch):
    """The exponent is 1 for disjoint rows, 0 for equal rows, and between them for a mixture."""

    monkeypatch.setattr(probe, "Batch", lambda played, policy: SimpleNamespace(x=played))
    policy = SimpleNamespace(used_rows=lambda rows: rows)
    disjoint = np.eye(8, dtype=bool).repeat(100, axis=1)
    assert probe.growth(policy, list(disjoint)) == pytest.approx(1)
    assert probe.growth(policy, [disjoint[0]] * 8) == pytest.approx(0)
    mixed = np.concatenate((disjoint, np.ones((8, 100), dtype=bool)), axis=1)
    assert 0.4 < probe.growth(policy, list(mixed)) < 0.9


def test_prediction_from_a_real_run(tmp_path, monkeypatch):
    flags = ["--run-dir", "run", *SMALL, "--max-frames", "800", "--total-timesteps", "4000"]
    run(command(2, "pg_mpi.train", *flags), tmp_path, code=0)
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    with open(tmp_path / "run/metrics.jsonl", "a") as file:
        file.write('{"update": 99')  # an incomplete line, as while the run trains
    words = ["--run", "run", "--ranks", "1,2,10000", "--warmup", 0, "--out", "out", "--json"]
    found = printed(tool("model.predict", tmp_path, *words))
    rows = found["rows"]
    assert [row["ranks"] for row in rows] == [1, 2, 10_000]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"predict.csv", "predict.json", "predict.png"}
    monkeypatch.chdir(tmp_path)
    first = [{**line, "restarts": -1, "ranks": 1, "wall_s": line["wall_s"] / 1e6} for line in lines]
    (tmp_path / "run/metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in first + lines))
    words[words.index("out")] = "again"
    again = printed(tool("model.predict", tmp_path, *words))
    assert again["costs"]["play_s"] == found["costs"]["play_s"], "an earlier start counts"
    last = ["--run", "run", "--warmup", 0]
    assert "is not a result of this same command" in refusal(main, *last, "--ranks", "1", "--out", "out")
    config = json.loads((tmp_path / "run/config.json").read_text())
    exact = config | {"settings": config["settings"] | {"reproducible": True}}
    (tmp_path / "run/config.json").write_text(json.dumps(exact))
    assert "run has --reproducible or --replay" in refusal(main, *last)
    (tmp_path / "run/checkpoints").rename(tmp_path / "elsewhere")
    assert "run has no checkpoint: let it train until" in refusal(main, *last)
    config["starts"][-1]["mpi"] = None
    (tmp_path / "run/config.json").write_text(json.dumps(config))
    assert "has no config.json and checkpoint of this version" in refusal(main, *last)


@pytest.mark.parametrize(
    "text, message", [('{"update": 1}\n', "is not of this version"), ("{\n", "but 1 damaged"), ("", "no line of")]
)
def test_bad_metrics_are_refused_with_one_line(tmp_path, text, message):
    (tmp_path / "metrics.jsonl").write_text(text)
    assert message in refusal(main, "--run", tmp_path)


def test_levelled_removes_the_trend_of_game_lengths():
    rng = np.random.default_rng(0)
    trend, variation = np.exp(np.linspace(-0.5, 0.5, 100)), np.exp(0.1 * rng.standard_normal(100))
    level = levelled(1000 * trend * variation)
    assert np.log(level).std() < 0.12 < np.log(1000 * trend * variation).std()
    assert level.mean() == pytest.approx((1000 * trend * variation).mean())
    assert levelled(1000 * trend * variation, 500.0) == pytest.approx(level * 500 / level.mean())
    assert levelled(np.array([800.0, 1600.0])).tolist() == [800.0, 1600.0]
    assert levelled(np.full(9, 700.0)) == pytest.approx(np.full(9, 700.0))
