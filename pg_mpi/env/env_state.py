"""An environment's state as plain data: those attributes of it and its wrappers that are numbers, arrays, generators.

Pickles would hold everything, and whoever reads one runs what its writer wanted. So what is plain is written as JSON,
and whether that is enough to go on from is found by trying (``gymnasium.py``).
"""

import base64
import json

import numpy as np

MOST_DEEP = 6


class Opaque(TypeError):
    """A value that is no plain data."""


def pack(env):
    """The plain attributes of an environment and of all that it wraps: bytes."""
    layers = []
    for layer in _layers(env):
        found = {}
        for name, value in vars(layer).items():
            try:
                found[name] = _packed(value)
            except Opaque:
                continue  # spaces, pictures, other environments: what does not change, or what a trial will miss
        layers.append(found)
    return json.dumps(layers).encode()


def unpack(env, state):
    """Set the attributes that ``pack`` gave. Raises nearly anything for what it did not give."""
    saved = json.loads(state)
    layers = _layers(env)
    if len(saved) != len(layers):
        raise ValueError(f"{len(saved)} layers of an environment that has {len(layers)}")
    for layer, found in zip(layers, saved):
        for name, value in found.items():
            if name not in vars(layer) and hasattr(type(layer), name):
                raise ValueError(f"{name} is no attribute that is saved")
            before = vars(layer).get(name)  # None: it is set in the course of a game
            _packed(before)  # not over what would not have been saved
            setattr(layer, name, _unpacked(value, before))


def _layers(env):
    """An environment and all that it wraps, the outermost first."""
    layers = []
    while callable(getattr(env, "step", None)) and hasattr(env, "__dict__") and all(env is not each for each in layers):
        layers.append(env)
        env = vars(env).get("env")
    return layers


def _packed(value, depth=0):
    """A value as JSON can hold it: scalars as they are, all else as [kind, ...]. Raises ``Opaque``."""
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


def _unpacked(packed, before):
    """The value that was packed; ``before``: what stands in its place now."""
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
            raise ValueError(f"a generator of {name}")
        generator = np.random.Generator(bits())
        generator.bit_generator.state = _unpacked(state, None)
        return generator
    if kind == "dict":
        return {key: _unpacked(each, None) for key, each in rest[0].items()}
    return {"list": list, "tuple": tuple}[kind](_unpacked(each, None) for each in rest[0])
