"""Sample Factory's APPO with the settings of its own Atari example."""

import tempfile

import ale_py  # noqa: F401 registers the game, which this Gymnasium does not
import numpy as np
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.algo.utils.misc import EPISODIC, ExperimentStatus
from sample_factory.envs.env_utils import register_env
from sample_factory.train import make_runner
from sf_examples.atari.atari_utils import make_atari_env
from sf_examples.atari.train_atari import parse_atari_args

from scaling.peers.log import Log, arguments, versions

FRAME_SKIP = 4


def make_pong(name, cfg, env_config, render_mode=None):
    """Create the example's game. Workers import this module to find it, and ale_py with it."""
    return make_atari_env(name, cfg, env_config, render_mode)


class Report(AlgoObserver):
    """Passes steps to the log and stops at the budget. ``train_for_seconds`` has no effect in 2.1.1."""

    def __init__(self, log):
        self._log = log

    def on_training_step(self, runner, training_iteration_since_resume):
        frames = sum(runner.env_steps.values())
        if self._log.steps(frames // FRAME_SKIP):
            runner.cfg.train_for_env_steps = 0  # the runner checks this next

    def game(self, runner, message, policy):
        """Record a finished game from a worker's message. The innermost wrapper has the whole score."""
        self._log.game(np.asarray(message[EPISODIC]["RecordEpisodeStatistics_reward"]).item())


def main():
    args = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        flags = {"env": "atari_pong", "device": "cpu", "seed": args.seed, "train_dir": folder, "experiment": "pong"}
        cfg = parse_atari_args([f"--{name}={value}" for name, value in flags.items()])
        register_env("atari_pong", make_pong)
        log = Log(
            args,
            name="Sample Factory APPO",
            settings=f"its Atari example's: {cfg.num_workers} workers, rollouts of {cfg.rollout}, {cfg.num_epochs} "
            f"epochs, batches of {cfg.batch_size}",
            versions=versions("sample-factory", "torch", "gymnasium", "ale-py", "numpy"),
        )
        cfg, runner = make_runner(cfg)
        report = Report(log)
        runner.register_observer(report)
        runner.register_episodic_stats_handler(report.game)
        status = runner.init()
        if status == ExperimentStatus.SUCCESS:
            status = runner.run()
    return status


if __name__ == "__main__":
    raise SystemExit(main())
