"""The search space: a TOML file with a table for each setting.

[learning_rate]
low = 1e-4
high = 3e-3
log = true

[num_steps]            # whole numbers: 128, 256, 384, 512
low = 128
high = 512
step = 128

[hidden]
choices = [32, 64, 128]
"""

import math
import sys
from pathlib import Path
from typing import Any

from pg_mpi.config import settings
from pg_mpi.config.errors import UsageError, reportable
from pg_mpi.config.parsers import checked, integer, nearest
from pg_mpi.config.presets import names_foreign_code

FIELDS = {name: field.metadata for name, field in settings.FIELDS.items() if field.metadata["identity"]}
KEYS = ({"choices"}, {"low", "high"}, {"low", "high", "log"}, {"low", "high", "step"})


#: Values of a setting: ``choices``, or numbers from ``low`` to ``high``, perhaps with ``log`` or ``step``.
Options = dict[str, Any]


def read(path: str) -> dict[str, Options]:
    """Read the dimensions of a file, by name. Raises ``UsageError``."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if reportable(error):
            raise
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the space {path} is not a TOML file of settings ({reason}): see --help") from None
    if not content:
        raise UsageError(f"the space {path} is empty: give it a table such as [learning_rate] with low and high")
    names = {name: name.replace("-", "_") for name in content}
    if len(set(names.values())) < len(names):
        raise UsageError(f"the space {path} has a setting twice, with - and with _: remove one of its tables")
    return {names[name]: _options(f"[{name}] in {path}", names[name], table) for name, table in content.items()}


def _options(where: str, name: str, table: Any) -> Options:
    if name not in FIELDS:
        raise UsageError(f"{where} is no setting of pg_mpi.train{nearest(name, FIELDS)}")
    if not isinstance(table, dict) or set(table) not in KEYS:
        raise UsageError(f"{where} must have choices, or low and high, and with these log or step")
    values = table.get("choices", [table.get("low"), table.get("high")])
    if not isinstance(values, list) or not values:
        raise UsageError(f"{where}: choices must be a list of values")
    values = [checked(FIELDS[name]["parse"], value, where) for value in values]
    if code := [value for value in values if names_foreign_code(name, value)]:
        raise UsageError(f"{where} names {code[0]}, which would be imported: give it on the command line")
    if "choices" in table:
        return {"choices": values}
    log, step = table.get("log", False), table.get("step")
    low, high = values
    numbers = [low, high] if step is None else [low, high, step]
    if not all(type(number) in (int, float) for number in numbers) or type(log) is not bool:
        raise UsageError(f"{where}: low, high and step must be numbers, and log true or false")
    if type(low) is int and step is not None:
        table["step"] = checked(integer(), step, f"{where}: step")
    if low >= high or (log and low <= 0) or (step is not None and not 0 < step < math.inf):
        raise UsageError(f"{where}: low must be below high, and above 0 with log = true, and step above 0")
    return table | {"low": low, "high": high}


def parsed(params: dict[str, Any]) -> dict[str, Any]:
    """Convert proposed values to those of ``TrainConfig``."""
    return {name: FIELDS[name]["parse"](value) for name, value in params.items()}
