"""Tables. Standard library only: ``scaling.peers.compare`` runs with any Python."""

import math
import statistics


def markdown(rows):
    """Format rows of cells, the header first, as a markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def aligned(rows):
    """Format dicts with the same keys as a table for a terminal, the keys first."""
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in cells)


def medians(rows):
    """The median of each column of dicts with the same keys. None counts as infinite; equal values are kept."""
    return {name: _median([row[name] for row in rows]) for name in rows[0]}


def _median(values):
    if values.count(values[0]) == len(values):
        return values[0]
    middle = statistics.median(math.inf if value is None else value for value in values)
    return None if middle == math.inf else middle


def _cell(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "-" if value is None else str(value)
