"""Count lines of code by folder, without blank lines, comments and docstrings: ``make lines [BASE=commit]``."""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source):
    """Count the lines of ``source`` that hold code."""
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, node.end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def by_folder(commit):
    """Count the lines of each folder of pg_mpi and scaling: a Counter. ``commit``: None for the work tree."""
    listing = ["git", "ls-tree", "-r", "--name-only", commit] if commit else ["git", "ls-files"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    counts = Counter()
    for name in names:
        top, *rest = name.split("/")
        if top not in ("pg_mpi", "scaling") or not name.endswith(".py"):
            continue
        if commit:
            show = ["git", "show", f"{commit}:{name}"]
            source = subprocess.run(show, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        else:
            source = (ROOT / name).read_text(encoding="utf-8")
        counts[f"{top}/{rest[0]}" if len(rest) > 1 else top] += code_lines(source)
        counts[f"{top}, all"] += code_lines(source)
    return counts


def main():
    now, base = by_folder(None), sys.argv[1] if len(sys.argv) > 1 else None
    before = by_folder(base) if base else Counter()
    for name in sorted({*now, *before}):
        print(f"{name:22}" + (f"{before[name]:>7,}" if base else "") + f"{now[name]:>7,}")
    total = [sum(count for name, count in each.items() if name.endswith(", all")) for each in (before, now)]
    if base:
        print(f"all: {total[0]:,} before, {total[1]:,} now, {100 * (total[1] / total[0] - 1):+.1f} %")


if __name__ == "__main__":
    main()
