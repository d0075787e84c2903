"""Markdown tables. Standard library only: the peers' environments import this module too."""


def markdown(rows):
    """Format rows of cells, the header first, as a markdown table."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])
