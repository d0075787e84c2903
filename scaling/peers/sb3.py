"""Stable-Baselines3 PPO with RL-Zoo's settings for Atari.

For another game than Pong, without ``compare``:

    .peers/sb3/bin/python -m scaling.peers.sb3 --game Asterix --seconds 600 --out asterix.jsonl
"""

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

from scaling.peers.log import Log, arguments, versions

SCHEDULE = 10_000_000  # steps over which RL-Zoo's schedules anneal to zero; the time budget ends earlier


class Report(BaseCallback):
    """Passes finished games to the log and stops at the budget."""

    def __init__(self, log):
        super().__init__()
        self._log = log

    def _on_step(self):
        for info in self.locals["infos"]:
            if "episode" in info:  # from the innermost Monitor: whole games, unclipped rewards
                self._log.game(info["episode"]["r"])
        return not self._log.steps(self.num_timesteps)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--game", default="Pong", help="a game of ale-py (default: %(default)s)")
    args = parser.parse_args()
    # the prefix makes every subprocess import ale_py, which registers the game there
    envs = make_atari_env(f"ale_py:{args.game}NoFrameskip-v4", n_envs=8, seed=args.seed, vec_env_cls=SubprocVecEnv)
    log = Log(
        args,
        name="Stable-Baselines3 PPO",
        settings="RL-Zoo's for Atari: 8 envs (subproc), 128 steps, 4 epochs, batches of 256",
        versions=versions("stable-baselines3", "torch", "gymnasium", "ale-py", "numpy"),
    )
    model = PPO(
        "CnnPolicy",
        VecFrameStack(envs, n_stack=4),
        n_steps=128,
        n_epochs=4,
        batch_size=256,
        learning_rate=lambda left: 2.5e-4 * left,
        clip_range=lambda left: 0.1 * left,
        vf_coef=0.5,
        ent_coef=0.01,
        seed=args.seed,
        device="cpu",
    )
    model.learn(SCHEDULE, callback=Report(log))
    envs.close()


if __name__ == "__main__":
    main()
