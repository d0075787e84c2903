"""The length of rounds. A game that a round cuts continues in the next one."""

from types import SimpleNamespace

import numpy as np
import pytest

from pg_mpi.config.command_line import parse_train
from pg_mpi.config.random_streams import ACTIONS, stream
from pg_mpi.env import atari_spec
from pg_mpi.features.foreground import Scene
from pg_mpi.files import checkpoint_file, checkpoint_folder
from pg_mpi.learning import round_length as lengths
from pg_mpi.learning.batch import Batch
from pg_mpi.learning.phases import PhaseTimer
from pg_mpi.learning.rollout import Env, Player
from pg_mpi.learning.round_length import round_length
from pg_mpi.mpi.world import World
from pg_mpi.run import factory
from pg_mpi.run.elastic import BuddyCopies
from pg_mpi.run.trainer import Trainer
from scaling.model.virtual.world import Hub

PONG = atari_spec.AtariSpec(Scene(np.zeros((1, 210, 160), np.uint8), np.zeros(256, np.uint8)), [0, 3, 4])
SMALL = ["--hidden", "4", "--envs-per-rank", "2"]


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setattr(lengths, "SHORTEST", 10)
    monkeypatch.setattr(lengths, "LONGEST", 50)


def play_rounds(count, *flags, in_all=2):
    """Play ``count`` rounds of two of ``in_all`` envs: (config, policy, network, envs, the trajectories of each)."""
    config, _ = parse_train([*SMALL, *map(str, flags)])
    envs = [Env(index, config, PONG) for index in range(2)]
    policy = factory.make_policy(config, PONG)
    network, player = policy.expand(), Player(envs, PONG.codes, config, PhaseTimer())
    length = round_length(config, in_all)
    return config, policy, network, envs, [player.play(network, length) for _ in range(count)]


def test_long_game_is_cut_and_bootstraps():
    config, policy, network, envs, (first, second) = play_rounds(2)
    assert [t.length for t in (*first, *second)] == [50] * 4
    assert not any(t.games or t.cuts or t.ends.any() for t in (*first, *second))
    assert [env.steps for env in envs] == [100, 100]
    for t, env in zip(second, envs):
        assert t.last_value == network.value(env.observation) != 0
    for t, after in zip(first, second):
        assert t.last_value == pytest.approx(after.values[0], rel=1e-5), (
            "the bootstrap value is not that of the next round's first state"
        )
    batch = Batch(second, policy, "raw")
    batch.estimate(config)
    last = [t.rewards[-1] + config.gamma * t.last_value for t in second]
    np.testing.assert_allclose(batch.targets[[49, 99]], last, rtol=1e-4)


def test_single_env_plays_whole_games():
    *_, (trajectories,) = play_rounds(1, "--max-frames", 80, in_all=1)
    assert [(t.length, len(t.games)) for t in trajectories] == [(20, 1), (20, 1)]
    *_, (first, second) = play_rounds(2, "--max-frames", 80, "--games-per-update", 3, in_all=1)
    assert [(t.length, len(t.games)) for t in first] == [(50, 2), (50, 2)] and first[0].last_value != 0
    assert [(t.length, t.cuts) for t in second] == [(50, [10, 30, 50])] * 2 and second[0].last_value == 0


@pytest.mark.parametrize(
    "flags, games, steps",
    [
        ([], [], 50),
        ([], [20, 30], 25),
        ([], [20, 300], 50),
        ([], [2, 4], 10),
        (["--games-per-update", "2"], [20, 20, 20], 40),
        (["--max-frames", "80"], [], 20),
        (["--max-frames", "24"], [6, 6], 6),
        (["--sync", "steps", "--num-steps", "7"], [20], 7),
    ],
)
def test_round_is_as_long_as_the_newest_games(flags, games, steps):
    config, _ = parse_train(flags)
    assert round_length(config, 3, [(0.0, each) for each in games]) == (steps, np.inf)


def test_nobody_waits_for_the_longest_game(tmp_path):
    """Two envs whose games end after different numbers of steps play equally many steps in each round."""
    flags = ["--env-id", "CartPole-v1", "--sync", "episode", "--hidden", "4", "--envs-per-rank", "2"]
    trainer = Trainer(World(), *parse_train([*flags, "--run-dir", str(tmp_path / "run")]))
    lengths, expected = [], [50]
    for _ in range(5):
        played = trainer.play()
        lengths.append({t.length for t in played})
        trainer.learn(played)
        expected.append(min(max(10, round(np.mean([steps for _, steps in trainer.counters.recent]))), 50))
    assert lengths == [{steps} for steps in expected[:-1]] and len(set(expected)) > 2
    scored = {steps for _, steps in trainer.counters.recent}
    assert len(scored) > 5, "the games are equally long"


def test_reinforce_plays_whole_games():
    *_, (trajectories,) = play_rounds(1, "--method", "reinforce", "--hidden", 4, "--max-frames", 400)
    assert [t.length for t in trajectories] == [100, 100]


def test_resume_within_a_game_is_bit_exact(tmp_path):
    args = [*SMALL, "--max-frames", "520"]  # 130 steps a game

    def train(name, rounds, *more):
        trainer = Trainer(World(), *parse_train([*args, "--run-dir", str(tmp_path / name), *more]))
        for _ in range(rounds):
            trainer.learn(trainer.play())
            trainer.report()
        trainer.save()
        return checkpoint_folder.candidates(str(tmp_path / name))[0]

    whole = train("whole", 5)
    half = train("half", 2)
    _, facts = checkpoint_file.load(half)
    assert [env["steps"] for env in facts["envs"]] == [100, 100] and facts["counters"]["games"] == 0
    resumed = train("resumed", 3, "--resume", half)
    with open(whole, "rb") as one, open(resumed, "rb") as other:
        assert one.read() == other.read()
    assert checkpoint_file.load(whole)[1]["counters"]["games"] == 2


def test_checkpoint_is_due_by_updates_or_by_the_clock(tmp_path):
    flags = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "8"]
    world, now = World(), [100.0]
    world.clock = lambda: now[0]
    for every, times in (("2", [False, True, False, True]), ("10m", [False, False, False, True])):
        folder = str(tmp_path / every)
        trainer = Trainer(world, *parse_train([*flags, "--run-dir", folder, "--checkpoint-every", every]))
        saved = []
        trainer.save, save = lambda saved=saved: saved.append(now[0]), trainer.save
        for due in times:
            now[0] += 150.0
            saved.clear()
            trainer.learn(trainer.play())
            trainer.after_update()
            assert bool(saved) == due
            if due:
                save()


def test_env_that_begins_anew_has_new_random_streams(tmp_path):
    """An env that was lost together with its copy: its first streams would play its first games again."""
    config, _ = parse_train(["--seed", "3"])
    first, anew = (Env(1, config, PONG, update=update) for update in (0, 7))
    key = np.random.SeedSequence(3, spawn_key=(ACTIONS, 1, 7))
    np.testing.assert_array_equal(anew.action_rng.random(4), np.random.Generator(np.random.PCG64(key)).random(4))
    assert first.action_rng.random() == stream(3, ACTIONS, 1).random()


def test_env_lost_with_its_copy_is_made_after_the_current_update(tmp_path, monkeypatch):
    flags = ["--env-id", "CartPole-v1", "--hidden", "4", "--num-steps", "8", "--run-dir", str(tmp_path / "run")]
    trainer = Trainer(World(), *parse_train([*flags, "--envs-per-rank", "1"]))
    trainer.learn(trainer.play())
    copies = BuddyCopies(World(), 2)
    copies.own = {0: trainer.player.envs[0].state()}
    _, lost = copies.redistributed(trainer.player.envs, trainer._make_env)
    assert lost.index == 1 and lost.action_rng.random() == stream(0, ACTIONS, 1, update=1).random()


def test_envs_of_failed_ranks_go_to_the_ranks_with_the_fewest():
    """Env 6 has a copy on rank 2; that of env 7 is lost too."""
    state = ({"emulator": np.zeros(1, np.uint8)}, {})
    own = [{0: state, 1: state, 2: state}, {3: state}, {4: state, 5: state}]
    restored = []

    def make_env(index):
        return SimpleNamespace(index=index, restore=lambda *_: restored.append(index))

    def main(world):
        copies = BuddyCopies(world, 8)
        copies.own, copies.neighbours = dict(own[world.rank]), {6: state} if world.rank == 2 else {}
        return [env.index for env in copies.redistributed([], make_env)]

    assert Hub(3, lambda size: 0.0).run(main) == [[0, 1, 2], [3, 6, 7], [4, 5]]
    assert sorted(restored) == list(range(7)), "env 7 begins a new game"
