"""Our trainer beside other public trainers, on the same cores and against the same clock."""

import time

#: The package is imported before any runner's own imports, so this is when the process started, to some 20 ms.
START = time.perf_counter()
