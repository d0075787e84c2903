"""Features made by hand for Pong: where the ball meets a paddle's column, reflected at the upper and lower border.

They extend the general features, whose crossings ignore borders. Use ``--features pg_mpi.features.pong:Courses`` or
``--preset pong``.
"""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from pg_mpi.features.blob_inputs import DRIFT, HALVES, LONGEST, TIMES, drift_bins, signed_bin, time_bin
from pg_mpi.features.blobs import Blob
from pg_mpi.features.encoder import BlobEncoder
from pg_mpi.features.foreground import Scene
from pg_mpi.features.native_encoder import NativeEncoder
from pg_mpi.features.registry import OURS

TOP, BOTTOM = 71, 383  # half pixels: centre of the ball at the upper and lower border
SHAPE = (2, TIMES, 2 * len(HALVES) + 1, *DRIFT)  # direction, steps, offset on arrival, motion of the other blob


class Courses:
    """General features and reflected crossings; see ``Encoder``."""

    def __init__(self, scene: Scene) -> None:
        self._general = cast(BlobEncoder | NativeEncoder, OURS["blobs"](scene))
        self.size = self._general.size + int(np.prod(SHAPE))

    def start(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._with_courses(self._general.start(screen))

    def step(self, screen: NDArray[np.uint8]) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._with_courses(self._general.step(screen))

    def state(self) -> bytes:
        """See ``Encoder``."""
        return self._general.state()

    def restore(self, state: bytes) -> NDArray[np.int64]:
        """See ``Encoder``."""
        return self._with_courses(self._general.restore(state))

    def _with_courses(self, observation: NDArray[np.int64]) -> NDArray[np.int64]:
        blobs = self._general.blobs
        found: set[Any] = {course(mover, other) for mover in blobs if mover.vx for other in blobs} - {None}
        return np.append(observation, np.array(sorted(found), dtype=np.int64) + self._general.size)


def course(mover: Blob, other: Blob) -> int | None:
    """Return the number of the input of a mover that reaches another blob's column, or None if it does not."""
    steps = (other.x - mover.x) / mover.vx
    if not 0 < steps <= LONGEST:
        return None
    period = 2 * (BOTTOM - TOP)
    arrival = (mover.y + mover.vy * steps - TOP) % period
    beside = round(TOP + min(arrival, period - arrival) - other.y)
    indices = int(mover.vx > 0), time_bin(steps), signed_bin(beside, HALVES), *drift_bins(other.vy, other.ay)
    return int(np.ravel_multi_index(indices, SHAPE))
