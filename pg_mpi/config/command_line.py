"""The command line of training: flags, presets and preset files → ``TrainConfig``."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pg_mpi.config.errors import RunError, UsageError, reportable
from pg_mpi.config.parsers import Parser, checked, integer, nearest
from pg_mpi.config.presets import PRESETS, env_defaults, names_foreign_code
from pg_mpi.config.settings import FIELDS, TrainConfig, inapplicable

DRY_RUN = "--dry-run"


def flag(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")


def _preset(name: str) -> dict[str, Any]:
    """The settings of a preset, or of a JSON file: a preset file, or a run's config.json."""
    if name in PRESETS:
        return dict(PRESETS[name])
    try:
        with open(name, encoding="utf-8") as file:
            content = json.load(file)
        if not isinstance(content, dict):
            raise ValueError(f"it holds a {type(content).__name__}")
        settings = content.get("settings", content)
        items = list(settings.items())
    except FileNotFoundError:
        raise UsageError(
            f"no preset or file {name!r}{nearest(name, PRESETS)}: choose {', '.join(PRESETS)} or a JSON file"
        ) from None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        if reportable(error):
            raise
        raise UsageError(f"the preset file {name} is not a JSON object of settings: {error}") from None
    values = {}
    for key, value in items:
        key = key.replace("-", "_")
        if key not in FIELDS:
            raise UsageError(f"the preset file {name} has an unknown setting {key!r}{nearest(key, FIELDS)}")
        if key == "preset" and settings is content:
            raise UsageError(f"the preset file {name} names another preset: copy its settings into the file")
        # of a run's config.json, only the settings that affect learning
        if value is not None and (settings is content or FIELDS[key].metadata["identity"]):
            values[key] = checked(FIELDS[key].metadata["parse"], value, f"{key} in {name}")
    return values


def _check_imports(settings: Mapping[str, Any], given: Mapping[str, Any], source: str) -> None:
    """Raise ``UsageError`` if the settings of a file name code to import that the command line does not name."""
    for name in settings.keys() - given.keys():
        value = settings[name]
        if names_foreign_code(name, value):
            raise UsageError(f"{source} names {value}, which would be imported: give {flag(name)} {value} to trust it")


def train_parser() -> Parser:
    """The command line of ``pg_mpi.train``. Its help needs neither MPI nor numpy."""
    parser = Parser(
        prog="python -m pg_mpi.train",
        description="Train on every rank of an MPI job: mpirun -n 4 python -m pg_mpi.train --preset karpathy. "
        "The same command resumes the run in its folder. Exit codes: 0 finished, 75 stopped early by --max-walltime, "
        "--min-ranks, a signal or an error that may pass (run the same command again), 2 wrong usage, 1 any other "
        "failure.",
        epilog="Settings that do not change what is learned, such as budgets and the checkpoint interval, may change "
        "on resume; others need another run. The last of repeated flags counts. Counts are over all ranks, except "
        "--envs-per-rank, --num-steps and --games-per-update. Numbers may be written as 2e9.",
    )
    for name, field in FIELDS.items():
        default = "" if field.default is None or field.default is False else f" (default: {field.default})"
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if field.type is bool else {}
        parser.add_argument(flag(name), metavar="V", default=None, help=field.metadata["help"] + default, **switch)
    parser.add_argument(
        DRY_RUN, action="store_true", help="print what a new run would do, need and save, without starting"
    )
    ranks = f"with {DRY_RUN}: for this many ranks (default: as the launcher started)"
    parser.add_argument("--ranks", metavar="V", type=integer(), help=ranks)
    return parser


def parse_train(argv: Sequence[str]) -> tuple[TrainConfig, set[str]]:
    """The ``TrainConfig`` of a command line, and the names of the settings given there.

    Order: the defaults, then those of the env, then the preset, then the flags. Raises ``UsageError``.
    """
    if DRY_RUN in argv:
        raise UsageError(f"{DRY_RUN} does not apply here: leave it out")
    config, given, ranks = parse_dry_run(argv)
    if ranks is not None:
        raise UsageError(f"--ranks is for {DRY_RUN}: start the ranks with mpirun -n {ranks}")
    return config, given


def parse_dry_run(argv: Sequence[str]) -> tuple[TrainConfig, set[str], int | None]:
    """As ``parse_train``, and the number of ranks of ``--ranks``, for a command line with ``--dry-run``."""
    words = vars(train_parser().parse(argv))
    given = {name: words[name] for name in FIELDS if words[name] is not None}
    flags = {name: checked(FIELDS[name].metadata["parse"], value, flag(name)) for name, value in given.items()}
    preset_name = flags.get("preset", "default")
    preset = _preset(preset_name)
    _check_imports(preset, flags, f"the preset file {preset_name}")
    env_id = {**preset, **flags}.get("env_id", TrainConfig.env_id)
    if preset_name in PRESETS and preset.get("env_id", env_id) != env_id:
        raise UsageError(f"--preset {preset_name} is made for {preset['env_id']}, not for {env_id}: choose another")
    defaults = env_defaults(env_id)
    for name, why in inapplicable(TrainConfig(**{**defaults, **preset, **flags})).items():
        if name in flags:
            raise UsageError(f"{flag(name)} has no effect {why}: leave it out")
        preset.pop(name, None)
    return TrainConfig(**{**defaults, **preset, **flags}), set(flags), words["ranks"]


def refuse(config: TrainConfig, names: Iterable[str]) -> None:
    """Raise ``UsageError`` if one of these settings has another value than its default."""
    for name in sorted(names):
        if getattr(config, name) != getattr(TrainConfig, name):
            raise UsageError(f"{flag(name)} does not apply here, on the command line or in a preset: leave it out")


if __name__ == "__main__":  # for job scripts: check a training command and print its run folder
    try:
        sys.stdout.buffer.write(os.fsencode(parse_train(sys.argv[1:])[0].folder) + b"\n")
    except (UsageError, RunError, OSError) as wrong:
        line = reportable(wrong)
        if line is None:
            raise
        print(f"pg_mpi: error: {line}", file=sys.stderr)
        sys.exit(line.code)
