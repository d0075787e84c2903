"""Loops of the parts of training that all play the same games.

One round of the real player is recorded as a ``Script`` per env. The games are deterministic, so an env restored to
the start of the round replays it: with the script alone, with features, with inference and sampling, or with the
player itself. Each replay must reach the recorded scores, so each part is timed on the same screens.
"""

import copy
import dataclasses

from pg_mpi.config.errors import RunError
from pg_mpi.mpi.world import World
from pg_mpi.run import run_state
from pg_mpi.run.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class Script:
    """Recording of one env in a round.

    Attributes:
        codes: the emulator's codes of the policy's actions, one per step.
        games: (score, steps) of the games that ended in it, and at last of the unfinished one.
    """

    codes: list
    games: list

    def check(self, games):
        """Raise ``RunError`` unless the games of a replay are those of the recording."""
        if games != self.games:
            raise RunError(f"a replay left the recorded game: (score, steps) were {self.games}, now {games}")


class Bench(Trainer):
    """A trainer whose state can be saved and restored, so that measurements do not change it."""

    def mark(self):
        """Save the state of this rank for ``put_back`` and ``rewind``."""
        whole = run_state.collect(self.config, self.env_spec, self.learner, self.counters)
        self._marked = copy.deepcopy((whole, [env.state() for env in self.player.envs]))

    def put_back(self):
        """Restore the last ``mark``: weights, optimizer, counters, emulators and random streams."""
        run_state.restore(World(), self._marked[0], self.learner, self.counters)
        self.rewind()
        self.network = self.learner.policy.expand()
        self.phases.clear()

    def rewind(self):
        """Restore the envs to the last ``mark``, and the counters, because the newest games set a round's length."""
        (_, facts), states = self._marked
        for env, state in zip(self.player.envs, states):
            env.restore(*state)
        self.counters.restore(facts["counters"])

    def record(self):
        """Play one round from the last ``mark``, restore the envs, and return a ``Script`` per env.

        Collective: every rank must call this.
        """
        self.play()
        scripts = self.scripts()
        self.rewind()
        return scripts

    def scripts(self):
        """The last round as a ``Script`` per env."""
        codes = self.env_spec.codes
        return [
            Script(
                [codes[action] for action in env.trajectory.actions.tolist()],
                [*env.trajectory.games, (env.score, env.steps)],
            )
            for env in self.player.envs
        ]


def emulate(envs, scripts):
    """Run the emulator alone: step, screen, over, reset. One env after another is the fastest order."""
    for env, script in zip(envs, scripts):
        game, games, score, steps = env.game, [], env.score, env.steps
        act, over = game.step, game.over
        for code in script.codes:
            score += act(code)
            steps += 1
            if over():
                games.append((score, steps))
                score = steps = 0
                game.reset()
        script.check([*games, (score, steps)])


def emulate_and_encode(envs, scripts, network=None):
    """Run the emulator and the features; with ``network`` also inference, which samples actions.

    The envs step together, and each part processes all of them before the next part, as in the player.
    """
    active = [(env, script, []) for env, script in zip(envs, scripts)]
    for t in range(max(len(script.codes) for script in scripts)):
        active = [each for each in active if t < len(each[1].codes)]
        if network:
            seen = [(env.observation, env.action_rng, env.preference) for env, *_ in active]
            network.sample(*zip(*seen))
        for env, script, _ in active:
            reward = env.game.step(script.codes[t])
            env.score += reward
            env.steps += 1
            env.paid = env.paid or reward != 0
        for env, *_ in active:
            env.observation = env.encoder.step(env.game.screen)
        for env, script, games in active:
            if env.game.over():
                games.append((env.score, env.steps))
                env.game.reset()
                env.begin()
            if t + 1 == len(script.codes):
                script.check([*games, (env.score, env.steps)])
