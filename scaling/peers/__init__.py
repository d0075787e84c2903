"""Comparison with other public trainers on the same cores for the same wall-clock time."""

import time

#: Start of the process to about 20 ms: the package is imported before any runner's own imports.
START = time.perf_counter()
