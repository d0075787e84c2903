"""State of an environment as plain data: the attributes of it and its wrappers that are numbers, arrays or generators.

A pickle would hold everything, but reading one can run arbitrary code. Plain data is written as JSON instead. A trial
before the run finds whether it is the whole state (``gym_spec.py``).
"""

import base64
import inspect
import json
from typing import Any

import numpy as np

MOST_DEEP = 6


class Opaque(TypeError):
    """A value that is not plain data."""


def plain(env: Any) -> list[dict[str, Any]]:
    """Return the plain attributes of an environment and of those that it wraps, the outermost first, as for JSON."""
    layers = []
    for layer in _layers(env):
        found = {}
        for name, value in vars(layer).items():
            try:
                found[name] = _packed(value)
            except Opaque:
                continue  # spaces, images: either constant, or the trial fails
        layers.append(found)
    return layers


def unpack(env: Any, state: bytes) -> None:
    """Set the attributes from ``plain`` as JSON, and delete plain ones that it lacks: they were set later.

    Raises ValueError, KeyError, TypeError or AttributeError if malformed.
    """
    saved = json.loads(state)
    layers = _layers(env)
    if len(saved) != len(layers):
        raise ValueError(f"the saved state has {len(saved)} layers, the environment has {len(layers)}")
    for layer, found, now in zip(layers, saved, plain(env)):
        for name in now.keys() - found.keys():
            if now[name] is not None:  # else it may have held an object, which is not saved
                delattr(layer, name)
        for name, value in found.items():
            # an attribute that is first set during a game has the value of the class, if any, until then
            before = vars(layer).get(name, inspect.getattr_static(type(layer), name, None))
            _packed(before)  # raises Opaque: this attribute is never saved
            setattr(layer, name, _unpacked(value, before))


def _layers(env: Any) -> list[Any]:
    """Return an environment and those that it wraps, the outermost first."""
    layers: list[Any] = []
    while callable(getattr(env, "step", None)) and hasattr(env, "__dict__") and all(env is not each for each in layers):
        layers.append(env)
        env = vars(env).get("env")
    return layers


def _packed(value: Any, depth: int = 0) -> Any:
    """Convert a value to JSON: scalars unchanged, others to [kind, ...]. Raises ``Opaque`` if it is not plain."""
    if depth > MOST_DEEP:
        raise Opaque
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf":
        array = np.asarray(value)
        text = base64.b64encode(array.tobytes()).decode()
        return ["array" if isinstance(value, np.ndarray) else "number", array.dtype.str, list(array.shape), text]
    if isinstance(value, np.random.Generator):
        return ["generator", type(value.bit_generator).__name__, _packed(value.bit_generator.state, depth + 1)]
    if type(value) in (list, tuple):
        return [type(value).__name__, [_packed(each, depth + 1) for each in value]]
    if type(value) is dict and all(type(key) is str for key in value):
        return ["dict", {key: _packed(each, depth + 1) for key, each in value.items()}]
    raise Opaque(type(value).__name__)


def _unpacked(packed: Any, before: Any) -> Any:
    """Convert a value back from JSON. ``before``: the attribute's current value."""
    if not isinstance(packed, list):
        return packed
    kind, *rest = packed
    if kind in ("array", "number"):
        dtype, shape, text = rest
        array = np.frombuffer(base64.b64decode(text), dtype=np.dtype(dtype)).reshape(shape)
        return array.copy() if kind == "array" else array[()]
    if kind == "generator":
        name, state = rest
        bits = type(before.bit_generator) if isinstance(before, np.random.Generator) else np.random.PCG64
        if bits.__name__ != name:
            raise ValueError(f"unexpected bit generator {name}")
        generator = np.random.Generator(bits())
        generator.bit_generator.state = _unpacked(state, None)
        return generator
    if kind == "dict":
        return {key: _unpacked(each, None) for key, each in rest[0].items()}
    return {"list": list, "tuple": tuple}[kind](_unpacked(each, None) for each in rest[0])
