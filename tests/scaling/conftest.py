"""Put the repository root first on the path, so that ``scaling`` is the package and not this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
