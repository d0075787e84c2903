"""The settings of a run: one frozen dataclass, each field with its parser and its help."""

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection
from typing import Any

from pg_mpi.config.errors import UsageError
from pg_mpi.config.parsers import boolean, choice, duration, integer, real, text, updates_or_time
from pg_mpi.config.presets import is_atari

# What a setting applies to, if not to every run: some environments, or runs with this value of another setting.
ATARI = "Atari games"
GYMNASIUM = "other environments"


STEPS, EPISODE, CLIPPED, ELASTIC = ("sync", "steps"), ("sync", "episode"), ("method", "clipped"), ("elastic", True)


def _setting(
    default: Any,
    parse: Callable[[Any], Any],
    help: str,
    identity: bool = True,
    applies: str | tuple[str, Any] | None = None,
) -> Any:
    """A field with its parser and help.

    Args:
        identity: False: free to change when a run is resumed.
        applies: one of the constants above; None: every run.
    """
    metadata = {"parse": parse, "help": help, "identity": identity, "applies": applies}
    return dataclasses.field(default=default, metadata=metadata)


_free = functools.partial(_setting, identity=False)
_atari = functools.partial(_setting, applies=ATARI)
_gymnasium = functools.partial(_setting, applies=GYMNASIUM)
_clipped = functools.partial(_setting, applies=CLIPPED)


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """The settings of a training run. Defaults are the ``default`` preset's."""

    preset: str = _free("default", text, "default, fast, karpathy, pong, or a JSON file of settings")
    env_id: str = _setting("ALE/Pong-v5", text, "the Gymnasium id of a game, or package.module:function of your own")
    seed: int = _setting(0, integer(0), "root of every random stream")

    total_timesteps: int | None = _free(None, integer(), "stop after this many agent steps, all ranks")
    max_walltime: float | None = _free(
        None, duration, "save and exit 75 this long after each start, such as 00:10:00 or 10m"
    )
    target_return: float | None = _free(None, real(), "stop when the last 100 games average this score")
    run_dir: str | None = _free(None, text, "run folder (default: runs/GAME-PRESET-sSEED)")
    resume: str = _free("auto", text, "auto: resume if the folder has a run; never; or a path")

    envs_per_rank: int = _setting(1, integer(), "emulators on each rank")
    sync: str = _setting(
        "episode", choice("episode", "steps"), "episode: update about once a game; steps: every T steps"
    )
    num_steps: int = _setting(128, integer(), "T: agent steps per env and update, with --sync steps", applies=STEPS)
    games_per_update: int = _setting(
        1,
        integer(),
        "games per env and update, with --sync episode: as many steps as they take on average, 128 to 1024",
        applies=EPISODE,
    )
    frame_skip: int = _atari(4, integer(1, 1000), "frames per agent step")
    sticky: float = _atari(0.25, real(0, 1), "probability that the emulator repeats the last action")
    max_frames: int = _atari(108_000, integer(1, 2**31 - 1), "a game is cut off after this many frames")
    mode: int | None = _atari(None, integer(0), "the ALE's number of the game mode (default: the game's own)")
    difficulty: int | None = _atari(None, integer(0), "the ALE's number of the difficulty (default: the game's own)")
    rewards: str = _setting(
        "sign",
        choice("sign", "raw", "scaled"),
        "rewards for learning: sign: their sign; raw; scaled: for returns of deviation 1. Scores are always raw",
    )
    policy: str = _setting(
        "usual", text, "usual: the built-in policy; or package.module:Class of your own, see docs/custom.md"
    )
    normalise: bool = _gymnasium(
        True, boolean, "normalise observations to mean 0 and deviation 1, over all ranks and all rounds so far"
    )
    squash: str = _gymnasium(
        "clip", choice("clip", "tanh"), "continuous actions are brought within the bounds of a Box by clip or tanh"
    )

    features: str = _atari(
        "blobs",
        text,
        "inputs of the policy: blobs: positions, motion and relations of blobs of pixels; difference: Karpathy's "
        "difference frame; or package.module:Class of your own, see docs/custom.md",
    )
    actions: str = _atari("minimal", text, "minimal: the ALE's minimal set; or names, such as NOOP,RIGHT,LEFT")
    hidden: int = _setting(64, integer(), "hidden units")

    method: str = _setting(
        "clipped", choice("clipped", "reinforce"), "clipped: the clipped surrogate; reinforce: plain REINFORCE"
    )
    learning_rate: float = _setting(
        1.4e-3,
        real(0, open_low=True),
        "step size of the optimizer at --minibatch-size; scaled by the square root of the actual size, at most by 2",
    )
    anneal_timesteps: int = _setting(
        4_000_000,
        integer(0),
        "learning rate and entropy bonus fall to a tenth over this many steps, more if minibatches grow over 4 times; "
        "0: constant",
    )
    gamma: float = _setting(0.98, real(0, 1, open_low=True), "discount per agent step")
    gae_lambda: float = _clipped(0.95, real(0, 1), "lambda of generalised advantage estimation")
    update_epochs: int = _clipped(4, integer(), "passes over each update's samples")
    minibatch_size: int = _clipped(
        2048,
        integer(),
        "samples per exchange, over all ranks; fewer in a smaller round, more with --max-minibatches of them",
    )
    max_minibatches: int = _clipped(
        8, integer(), "most exchanges per epoch: beyond it minibatches grow with the rollout, as on many ranks"
    )
    clip_coef: float = _clipped(0.2, real(0, open_low=True), "the importance ratio is clipped to 1 +- this")
    ent_coef: float = _clipped(0.01, real(0), "weight of the entropy bonus")
    vf_coef: float = _clipped(1.0, real(0), "weight of the value loss")
    max_grad_norm: float = _clipped(0.5, real(0, open_low=True), "the gradient's norm is clipped to this")

    replay: bool = _setting(
        False, boolean, "self-imitation: also learn from past transitions, drawn in proportion to their return"
    )

    reproducible: bool = _setting(
        False, boolean, "bitwise-equal results on any number of ranks with the same envs, at some cost in speed"
    )

    checkpoint_every: int | float = _free(50, updates_or_time, "updates between checkpoints, or a time such as 10m")
    keep_checkpoints: int = _free(3, integer(), "number of checkpoints kept in the folder")
    evaluate_every: int = _free(
        0,
        integer(0),
        "updates between evaluations by 20 full games, which change nothing that is learned; the best checkpoint is "
        "kept; 0: never",
    )
    log_interval: float = _free(10.0, real(0, open_low=True), "seconds between progress lines")
    sync_check_every: int = _free(50, integer(), "updates between checks that ranks hold equal weights")
    watchdog: float = _free(
        600.0, real(0), "print every rank's stack and end the job after this many seconds without an update; 0: never"
    )
    elastic: bool = _free(
        False, boolean, "continue without failed ranks, with their envs on the survivors; needs mpirun --with-ft ulfm"
    )
    min_ranks: int = _setting(
        1,
        integer(),
        "with --elastic: checkpoint and exit 75 if fewer ranks than this are left",
        identity=False,
        applies=ELASTIC,
    )
    track: str | None = _free(None, choice("tensorboard"), "tensorboard: also write its files (extra: tensorboard)")
    trace: bool = _free(
        False, boolean, "write the phases of all ranks for Perfetto into trace/, see scaling.measure.timeline"
    )
    expect_ranks: int | None = _free(None, integer(), "refuse to start on any other number of ranks")

    @property
    def folder(self) -> str:
        """The run folder: ``--run-dir``, or a name from the settings, so that the same command resumes."""
        if self.run_dir:
            return self.run_dir
        game = re.sub(r"[^a-z0-9]+", "-", self.env_id.rsplit("/", 1)[-1].rsplit("-v", 1)[0].lower())
        preset = os.path.splitext(os.path.basename(self.preset))[0]
        return os.path.join("runs", f"{game}-{preset}-s{self.seed}")

    def identity(self) -> dict[str, Any]:
        """The settings that affect learning."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.metadata["identity"]}

    def check(self, ranks: int, given: Collection[str] = ()) -> None:
        """Raise ``UsageError`` for settings that conflict on ``ranks`` ranks.

        ``given``: the names of the settings that the user gave. A ``minibatch_size`` among them must fit the rollout.
        """
        own = self.policy != "usual" or not is_atari(self.env_id)
        if own and self.method == "reinforce":
            raise UsageError("--method reinforce needs an Atari game and the built-in policy: use --method clipped")
        if self.method == "reinforce" and self.sync == "steps":
            raise UsageError("--method reinforce needs whole games: use --sync episode")
        if self.replay and self.method == "reinforce":
            raise UsageError("--replay needs a value function, which --method reinforce lacks: use --method clipped")
        if self.replay and self.reproducible:
            raise UsageError("--replay depends on the number of ranks: leave --reproducible out")
        if own and self.replay:
            raise UsageError("--replay needs an Atari game and the built-in policy: leave it out")
        if self.replay and self.rewards == "scaled":
            raise UsageError("--replay stores returns, and --rewards scaled changes their scale: give sign or raw")
        if self.min_ranks > ranks:
            raise UsageError(f"--min-ranks {self.min_ranks} is more than the {ranks} ranks there are: give fewer")
        rollout = ranks * self.envs_per_rank * self.num_steps
        if self.sync == "steps" and "minibatch_size" in given and self.minibatch_size > rollout:
            raise UsageError(
                f"--minibatch-size {self.minibatch_size} exceeds the rollout of {rollout} samples "
                f"({ranks} ranks x {self.envs_per_rank} envs x {self.num_steps} steps): use at most {rollout} "
                "or raise --num-steps"
            )


#: By name, each field of a ``TrainConfig``.
FIELDS = {field.name: field for field in dataclasses.fields(TrainConfig)}


def inapplicable(config: TrainConfig) -> dict[str, str]:
    """The settings without effect, as far as the settings alone tell: the reason, by name."""
    return {name: why for name, field in FIELDS.items() if (why := _why_not(config, field.metadata["applies"]))}


def _why_not(config: TrainConfig, applies: str | tuple[str, Any] | None) -> str:
    if isinstance(applies, tuple):
        name, value = applies
        without = f"without --{name}" + ("" if value is True else f" {value}")
        return "" if getattr(config, name) == value else without
    return f"on {config.env_id}" if applies == (GYMNASIUM if is_atari(config.env_id) else ATARI) else ""


def from_identity(saved: Any) -> TrainConfig:
    """The ``TrainConfig`` whose ``identity`` this is, each value checked like a flag's.

    Raises ValueError, KeyError or TypeError for malformed data.
    """
    values: dict[str, Any] = {}
    for name, value in dict(saved).items():
        field = FIELDS[name]
        values[name] = value if value is field.default is None else field.metadata["parse"](value)
    return TrainConfig(**values)
