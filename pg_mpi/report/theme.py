"""Colours of the page and its figures: a light and a dark theme."""

from typing import Any

#: The themes as CSS variables: colours of the page, and one for each run; further runs repeat them with other dashes.
LIGHT = {
    "page": "#f6f7f8", "card": "#ffffff", "ink": "#1b1f24", "muted": "#5b6570", "line": "#dfe3e8", "accent": "#1260b0",
    "marked": "#fff3c9", "run0": "#1665c1", "run1": "#c8344c", "run2": "#1f8a5b", "run3": "#a86b00", "run4": "#7a46c4",
    "run5": "#0c8190",
}  # fmt: skip
DARK = {
    "page": "#101317", "card": "#181c21", "ink": "#e7eaee", "muted": "#9ba6b2", "line": "#2e353d", "accent": "#78b4ff",
    "marked": "#4a3d10", "run0": "#6fb1ff", "run1": "#ff8592", "run2": "#58cf9b", "run3": "#f0b64f", "run4": "#bd9cff",
    "run5": "#52cfe0",
}  # fmt: skip
RUNS = sum(name.startswith("run") for name in LIGHT)

#: Dash patterns (matplotlib, CSS) of the first runs, the next runs, and the runs after those.
DASHES: tuple[tuple[Any, str], ...] = (("-", "solid"), ((0, (5, 2)), "dashed"), ((0, (1.2, 1.6)), "dotted"))

#: A colour for each phase, visible in both themes: play in greens, learning in blues, other ranks in reds.
PHASES = {
    "emulator": "#2d6a4f",
    "reset": "#74a892",
    "features": "#52b788",
    "inference": "#95d5b2",
    "gradient": "#1d4e89",
    "optimizer": "#6ea8dc",
    "allreduce": "#f4a261",
    "wait": "#d1495b",
    "record": "#b8a1d9",
    "other": "#9aa1a9",
}


def run_style(number: int) -> tuple[str, Any]:
    """(colour in the light theme, dash pattern of matplotlib) of run ``number``."""
    return LIGHT[f"run{number % RUNS}"], DASHES[number // RUNS % len(DASHES)][0]


def dash(number: int) -> str:
    """The CSS border style of run ``number``."""
    return DASHES[number // RUNS % len(DASHES)][1]


def variables(theme: dict[str, str]) -> str:
    """Return a theme as CSS, ``--ink:#...;`` and so on."""
    return "".join(f"--{name}:{colour};" for name, colour in theme.items())
