"""Parse methods such as ``epsilon:0.1,step=0.1``, and list those of the parameter study."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pg_mpi.bandit.methods import Agent, EpsilonGreedy, Gradient, UpperConfidence
from pg_mpi.config.parsers import boolean, choice, real


class Kind(NamedTuple):
    """A kind of method.

    Attributes:
        make: function (shape, value, **options) → agent.
        symbol: the parameter's name in the book.
        value: parser of the parameter.
        options: further settings and their parsers.
        study: the parameter study tries 2 to each of these powers, as in figure 2.6 of the book.
    """

    make: Callable[..., Agent]
    symbol: str
    value: Callable[[str], float]
    options: dict[str, Callable[[str], Any]]
    study: range


def _optimistic(shape: tuple[int, int], start: float, step: float = 0.1) -> Agent:
    return EpsilonGreedy(shape, 0.0, start, step)


STEP = real(0, 1, open_low=True)
KINDS = {
    "epsilon": Kind(EpsilonGreedy, "epsilon", real(0, 1), {"start": real(), "step": STEP}, range(-7, -1)),
    "optimistic": Kind(_optimistic, "Q_1", real(), {"step": STEP}, range(-2, 3)),
    "ucb": Kind(UpperConfidence, "c", real(0, open_low=True), {"start": real(), "step": STEP}, range(-4, 3)),
    "gradient": Kind(Gradient, "alpha", real(0, open_low=True), {"baseline": boolean}, range(-5, 3)),
}
#: The methods of the book's figures 2.2 to 2.5.
USUAL = ["epsilon:0", "epsilon:0.01", "epsilon:0.1", "optimistic:5", "ucb:2", "gradient:0.1"]
USUAL += ["gradient:0.1,baseline=false"]


class Method(NamedTuple):
    """A method with its settings. ``name`` is ``kind:value,option=value``."""

    name: str
    kind: str
    value: float
    options: dict[str, Any]

    def make(self, shape: tuple[int, int]) -> Agent:
        """Return an agent for all runs; ``shape`` is (arms, runs)."""
        return KINDS[self.kind].make(shape, self.value, **self.options)


def parse(words: str) -> Method:
    """Parse a ``Method`` from ``KIND:VALUE[,OPTION=VALUE]``. Raises ``ValueError`` that states what is expected."""
    head, *rest = words.split(",")
    kind, colon, value = head.partition(":")
    choice(*KINDS)(kind)
    known = KINDS[kind]
    if not colon:
        raise ValueError(f"{kind}:VALUE, as {kind}:{2 ** known.study[-1]}")
    options = {}
    for each in rest:
        name, equals, text = each.partition("=")
        if name not in known.options or not equals:
            raise ValueError(f"{kind}:VALUE, then any of " + ", ".join(f"{option}=VALUE" for option in known.options))
        options[name] = _value(known.options[name], text, f"{name}=VALUE with")
    return Method(words, kind, _value(known.value, value, f"{kind}:VALUE with"), options)


def _value(parser: Callable[[str], Any], text: str, what: str) -> Any:
    try:
        return parser(text)
    except ValueError as wanted:
        raise ValueError(f"{what} {wanted}") from None


def study() -> list[Method]:
    """Return the methods of the parameter study: every kind with each of its values."""
    return [parse(f"{kind}:{2.0**power:g}") for kind, known in KINDS.items() for power in known.study]
