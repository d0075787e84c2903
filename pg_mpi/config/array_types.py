"""Types of arrays in annotations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
