"""Puts the root first: with ``tests`` on the path, this folder would pass for the package ``scaling``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
