"""Select the encoder class for ``--features``, and check custom encoders.

One has ``size``, ``start``, ``step``, ``state`` and ``restore``: see ``encoder.Encoder`` and docs/custom.md.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pg_mpi.config.errors import RunError, UsageError, user_code
from pg_mpi.config.parsers import imported, nearest
from pg_mpi.features import native_encoder
from pg_mpi.features.difference import DifferenceEncoder
from pg_mpi.features.encoder import BlobEncoder, Encoder
from pg_mpi.features.foreground import Scene
from pg_mpi.features.native_encoder import NativeEncoder

TRIAL = 50  # steps of play in the trial of custom features before a run

OURS = {"blobs": NativeEncoder if native_encoder.LIBRARY else BlobEncoder, "difference": DifferenceEncoder}


def encoder_class(name: str) -> Callable[[Scene], Encoder]:
    """Return the class of ``--features``. Raises ``UsageError`` for an unknown name or a failed import."""
    if name in OURS:
        return OURS[name]
    if ":" not in name:
        raise UsageError(
            f"unknown --features {name!r}{nearest(name, OURS)}: use {', '.join(OURS)} or package.module:Class"
        )
    found: Callable[[Scene], Encoder] | None = imported(name, "--features")
    if not callable(found):
        raise UsageError(f"--features {name} names no class: give package.module:Class, or blobs")
    return found


def make_encoder(name: str, scene: Scene) -> Encoder:
    """Create an encoder of one env. Custom ones raise ``RunError`` at each step with an invalid observation.

    Raises ``UsageError`` if a custom one cannot be created.
    """
    made = encoder_class(name)
    if name in OURS:
        return made(scene)
    with user_code(f"--features {name} cannot be used"):
        return CheckedEncoder(name, made(scene))


class CheckedEncoder:
    """Wrapper that checks a custom ``Encoder``. Any fault raises a one-line ``RunError`` that names it."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        self._name, self._encoder = name, encoder
        self.size = encoder.size
        if not isinstance(self.size, (int, np.integer)) or self.size < 1:
            raise RunError(f"--features {name}: size must be a whole number of at least 1, not {self.size!r}")

    def start(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._checked(self._call("start", screen))

    def step(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._checked(self._call("step", screen))

    def state(self) -> bytes:
        """See ``Encoder``."""
        state = self._call("state")
        if not isinstance(state, bytes):
            raise RunError(f"--features {self._name}: state() gave {type(state).__name__}, not bytes")
        return state

    def restore(self, state: bytes) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._checked(self._call("restore", state))

    def _call(self, verb: str, *args: Any) -> Any:
        with user_code(f"--features {self._name}: {verb} failed", RunError):
            found = getattr(self._encoder, verb)(*args)
        return found

    def _checked(self, found: Any) -> NDArray[np.int64]:
        if not isinstance(found, np.ndarray) or found.dtype != np.int64 or found.ndim != 1:
            kind = f"{found.dtype} {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__
            raise RunError(f"--features {self._name}: an observation must be int64 (n,), not {kind}")
        if self._encoder.size != self.size:
            raise RunError(f"--features {self._name}: size changed from {self.size} to {self._encoder.size}")
        if len(found) and not (found[0] >= 0 and found[-1] < self.size and (found[1:] > found[:-1]).all()):
            raise RunError(
                f"--features {self._name}: an observation must be sorted, without duplicates, and from 0 to "
                f"{self.size - 1}"
            )
        return found


def try_out(name: str, scene: Scene, game: Any, codes: list[int], rng: np.random.Generator) -> None:
    """Test custom features on random steps and on a saved state. Raises ``UsageError`` if they fail."""
    with user_code(f"--features {name} cannot be used"):
        encoder, other = make_encoder(name, scene), make_encoder(name, scene)
        encoder.start(game.screen)
        for step in range(TRIAL):
            if game.over():
                game.reset()
                encoder.start(game.screen)
                other.start(game.screen)
            game.step(codes[rng.integers(len(codes))])
            observation = encoder.step(game.screen)
            restored = other.step(game.screen) if step % 10 else other.restore(encoder.state())
            if not np.array_equal(observation, restored):
                raise RunError(f"--features {name}: restore(state()) gives other observations")
