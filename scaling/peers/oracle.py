"""Serial oracle of Karpathy's method: one process, dense float64 numpy."""

import importlib.util
from pathlib import Path

from scaling.peers.log import Log, arguments, versions

ORACLE = Path(__file__).parents[2] / "tests" / "oracle" / "karpathy_serial.py"
GAME = {
    "emulator": "ale-py, Pong",
    "frame skip": "4, last frame",
    "sticky actions": "0.25",
    "start": "at once",
    "actions": "2 (up, down)",
    "observation": "80x80 binary, difference of two",
    "reward": "as given",
    "longest game": "108,000 frames",
}


def load():
    """Load the oracle's module by path: tests are not a package."""
    spec = importlib.util.spec_from_file_location("karpathy_serial", ORACLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    args = arguments(__doc__).parse_args()
    learner = load().Learner(seed=args.seed)
    log = Log(
        args,
        name="Serial oracle of Karpathy's method",
        settings=f"200 hidden units, {learner.games_per_update} game an update, RMSProp at {learner.learning_rate}",
        game=GAME,
        versions=versions("numpy", "ale-py"),
    )
    over = False
    while not over:
        learner.play_game()
        log.game(learner.scores[-1])
        over = log.steps(sum(learner.lengths))


if __name__ == "__main__":
    main()
