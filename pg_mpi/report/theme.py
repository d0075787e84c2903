"""Colours of the page and its figures: a light and a dark theme."""

from typing import Any, NamedTuple


class Theme(NamedTuple):
    """Colours of one theme.

    Attributes:
        runs: a colour for each run; further runs repeat them with other dash patterns.
    """

    name: str
    page: str
    card: str
    ink: str
    muted: str
    line: str
    accent: str
    marked: str
    runs: tuple[str, ...]

    def variables(self) -> str:
        """Return the theme as CSS variables, ``--ink:#...;`` and so on."""
        named = {name: value for name, value in self._asdict().items() if name not in ("name", "runs")}
        named |= {f"run{number}": colour for number, colour in enumerate(self.runs)}
        return "".join(f"--{name}:{colour};" for name, colour in named.items())

    def run(self, number: int) -> tuple[str, Any]:
        """(colour, dash pattern of matplotlib) of run ``number``."""
        return self.runs[number % len(self.runs)], DASHES[number // len(self.runs) % len(DASHES)][0]


LIGHT = Theme(
    "light", page="#f6f7f8", card="#ffffff", ink="#1b1f24", muted="#5b6570", line="#dfe3e8", accent="#1260b0",
    marked="#fff3c9", runs=("#1665c1", "#c8344c", "#1f8a5b", "#a86b00", "#7a46c4", "#0c8190"),
)  # fmt: skip
DARK = Theme(
    "dark", page="#101317", card="#181c21", ink="#e7eaee", muted="#9ba6b2", line="#2e353d", accent="#78b4ff",
    marked="#4a3d10", runs=("#6fb1ff", "#ff8592", "#58cf9b", "#f0b64f", "#bd9cff", "#52cfe0"),
)  # fmt: skip
THEMES = (LIGHT, DARK)

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


def dash(number: int) -> str:
    """The CSS border style of run ``number``."""
    return DASHES[number // len(LIGHT.runs) % len(DASHES)][1]
