"""Ray RLlib's PPO with the settings of its own Atari example."""

import gymnasium
import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.learner.frame_stacking import FrameStackingLearner
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack

from scaling.peers.log import Log, arguments, cores, versions

STACK = 4
SCORES = "scores"


class Scores(RLlibCallback):
    """Sends each game's score from its runner to the main process."""

    def on_episode_end(self, *, episode, metrics_logger, **kwargs):
        metrics_logger.log_value(SCORES, episode.get_return(), reduce="item_series")


def make_pong(config):
    """Create the env with RLlib's own preprocessing. The connectors stack the frames."""
    return wrap_atari_for_new_api_stack(gymnasium.make("ale_py:ALE/Pong-v5", **config), framestack=None)


def config(runners, seed):
    """The example's settings with ``runners`` processes of one game each."""
    tune.register_env("pong", make_pong)
    emulator = {"frameskip": 1, "full_action_space": False, "repeat_action_probability": 0.0}
    network = DefaultModelConfig(
        conv_filters=[[filters, 4, 2] for filters in (16, 32, 64, 128)],
        conv_activation="relu",
        head_fcnet_hiddens=[256],
        vf_share_layers=True,
    )
    return (
        PPOConfig()
        .environment("pong", env_config=emulator, clip_rewards=True)
        .env_runners(
            num_env_runners=runners,
            env_to_module_connector=lambda env, spaces, device: FrameStackingEnvToModule(num_frames=STACK),
        )
        .training(
            train_batch_size_per_learner=4000,
            minibatch_size=128,
            num_epochs=10,
            lr=0.00015,
            lambda_=0.95,
            kl_coeff=0.5,
            clip_param=0.1,
            vf_clip_param=10.0,
            entropy_coeff=0.01,
            grad_clip=100.0,
            grad_clip_by="global_norm",
        )
        .learners(learner_connector=lambda observations, actions: FrameStackingLearner(num_frames=STACK))
        .rl_module(model_config=network)
        .callbacks(Scores)
        .debugging(seed=seed)
    )


def main():
    args = arguments(__doc__).parse_args()
    log = Log(
        args,
        name="Ray RLlib PPO",
        settings=f"its Atari example's: batches of 4,000 steps, 10 epochs, minibatches of 128; {cores()} runners with "
        "1 env each",
        versions=versions("ray", "torch", "gymnasium", "ale-py", "numpy"),
    )
    ray.init(num_cpus=cores(), include_dashboard=False)
    algorithm = config(cores(), args.seed).build_algo()
    over = False
    while not over:
        result = algorithm.train()["env_runners"]
        for score in result.get(SCORES, ()):
            log.game(score)
        over = log.steps(int(result["num_env_steps_sampled_lifetime"]))
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
