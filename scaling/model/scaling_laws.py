"""Scaling laws of steps/s against ranks: fits, intervals and extrapolation.

    line      X(N) = a + b N                                                      linear
    amdahl    X(N) = speed N / (1 + contention (N - 1))                           Amdahl (1967)
    usl       X(N) = speed N / (1 + contention (N - 1) + coherency N (N - 1))     Gunther (2007)

``contention`` is the serial share of a rank's work, ``coherency`` the cost of each pair of ranks. The last two laws are
linear in their coefficients, all at least 0, when inverted:

    N / X(N) = ((1 - contention) + contention N + coherency N (N - 1)) / speed

All three are fitted by least squares of *relative* errors, because the scatter of a measurement grows with its speed.

Intervals contain 95 % of the fits to ``DRAWS`` synthetic repetitions of the measurement, drawn from the law and its
residual scatter. The uncertainty of the scatter follows a chi-squared distribution with the fit's degrees of freedom.
Without degrees of freedom there is no interval.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

DRAWS = 1000
MOST_LOG = 20.0  # a drawn speed is at most e to this times the fitted one
MOST = 10**9  # ranks: a speed that needs more is never reached


class Law(NamedTuple):
    """A scaling law: name, equation, parameters, and the form in which it is fitted."""

    name: str
    equation: str
    parameters: tuple
    inverted: bool  # fitted as N / X, with coefficients of at least 0

    def basis(self, ranks):
        """Design matrix: float64 (points, parameters)."""
        n = np.asarray(ranks, dtype=float)
        return np.stack([np.ones_like(n), n, n * (n - 1)][: len(self.parameters)], axis=1)

    def coefficients(self, ranks, sps):
        """Least-squares coefficients of the basis."""
        n, x = np.asarray(ranks, dtype=float), np.asarray(sps, dtype=float)
        aim = n / x if self.inverted else x
        weighted, ones = self.basis(n) / aim[:, None], np.ones_like(aim)
        return nnls(weighted, ones)[0] if self.inverted else np.linalg.lstsq(weighted, ones, rcond=None)[0]

    def speed(self, coefficients, ranks):
        """Steps/s at ``ranks``: float64 (points,)."""
        value = self.basis(ranks) @ coefficients
        with np.errstate(divide="ignore"):
            return np.asarray(ranks, dtype=float) / value if self.inverted else value

    def read(self, coefficients):
        """The parameters by name."""
        values = coefficients
        if self.inverted:
            one = coefficients[0] + coefficients[1]  # seconds per step on one rank
            values = [1 / one, *(coefficients[1:] / one)] if one else [math.inf, *(coefficients[1:] * 0)]
        return dict(zip(self.parameters, map(float, values)))

    def needed(self, coefficients, target):
        """The fewest ranks with at least ``target`` steps/s, or None."""
        if self.speed(coefficients, [1])[0] >= target:
            return 1
        root = self._root(coefficients, target)
        if not 0 < root < MOST:
            return None
        found = math.ceil(root - 1e-9 * root)
        return found if self.speed(coefficients, [found])[0] >= target * (1 - 1e-9) else None

    def _root(self, coefficients, target):
        """The smaller real number of ranks with ``target`` steps/s; infinite if there is none."""
        if not self.inverted:
            a, b = coefficients
            return (target - a) / b if b > 0 else math.inf
        # target (c0 + c1 N + c2 N (N - 1)) = N, a quadratic q N^2 + p N + r
        c0, c1, c2 = (*coefficients, 0.0)[:3]
        q, p, r = c2 * target, (c1 - c2) * target - 1, c0 * target
        under = p * p - 4 * q * r
        return 2 * r / (-p + math.sqrt(under)) if under >= 0 and p < 0 else math.inf


LINE = Law("line", "X(N) = a + b N", ("a", "b"), False)
AMDAHL = Law("amdahl", "X(N) = speed N / (1 + contention (N - 1))", ("speed", "contention"), True)
USL = Law(
    "usl", "X(N) = speed N / (1 + contention (N - 1) + coherency N (N - 1))", ("speed", "contention", "coherency"), True
)
LAWS = (LINE, AMDAHL, USL)


def fit(law, ranks, sps, targets=(), seed=0):
    """Fit a law to measured points: a JSON-able dict, with ``problem`` if there are too few points.

    Args:
        ranks, sps: one point per measurement. A number of ranks may occur more than once.
        targets: steps/s to reach.

    Returns:
        dict of ``law, equation, points, parameters`` (``value, low, high`` each), ``error`` (root mean square of the
        relative errors), ``left_out`` (the largest number of ranks predicted without its points, or None) and
        ``needed`` (for each target the ``ranks``, ``low`` and ``high``; None: never).
    """
    ranks, sps = np.asarray(ranks, dtype=float), np.asarray(sps, dtype=float)
    result = {"law": law.name, "equation": law.equation, "points": len(ranks)}
    if len(set(ranks)) < len(law.parameters):
        return {**result, "problem": f"needs {len(law.parameters)} different numbers of ranks"}
    best = law.coefficients(ranks, sps)
    draws = _draws(law, best, ranks, sps, seed)
    read = law.read(best)
    spread = [law.read(draw) for draw in draws]
    return {
        **result,
        "parameters": {name: _interval(read[name], [each[name] for each in spread]) for name in law.parameters},
        "error": float(np.sqrt(np.mean((law.speed(best, ranks) / sps - 1) ** 2))),
        "left_out": _left_out(law, ranks, sps),
        "needed": [_needed(law, best, draws, target) for target in targets],
    }


def fit_all(ranks, sps, targets=()):
    """Fit every law."""
    return [fit(law, ranks, sps, targets) for law in LAWS]


def band(law, ranks, sps, wanted, seed=0):
    """The law's speed and its 95 % interval at each of ``wanted``: three float64 arrays."""
    best = law.coefficients(ranks, sps)
    middle = law.speed(best, wanted)
    draws = _draws(law, best, np.asarray(ranks, dtype=float), np.asarray(sps, dtype=float), seed)
    if not len(draws):
        return middle, middle, middle
    low, high = np.percentile([law.speed(draw, wanted) for draw in draws], (2.5, 97.5), axis=0, method="nearest")
    return middle, low, high


def _draws(law, best, ranks, sps, seed):
    """Coefficients of fits to synthetic measurements; empty without degrees of freedom."""
    free = len(ranks) - len(law.parameters)
    if free <= 0:
        return []
    rng = np.random.default_rng(seed)
    fitted = law.speed(best, ranks)
    scatter = math.sqrt(np.sum((sps / fitted - 1) ** 2) / free)
    known = scatter * np.sqrt(free / rng.chisquare(free, DRAWS))
    logs = known[:, None] * rng.standard_normal((DRAWS, len(ranks)))
    noise = np.exp(np.clip(logs, -MOST_LOG, MOST_LOG))  # speeds stay above 0, and finite where nothing fits
    return [law.coefficients(ranks, fitted * each) for each in noise]


def _interval(value, spread):
    low, high = map(float, np.percentile(spread, (2.5, 97.5), method="nearest")) if spread else (None, None)
    return {"value": value, "low": low, "high": None if high == math.inf else high}


def _left_out(law, ranks, sps):
    """Predict the largest number of ranks with a fit that leaves it out."""
    last = ranks.max()
    kept = ranks < last
    if len(set(ranks[kept])) < len(law.parameters):
        return None
    measured = float(np.median(sps[~kept]))
    predicted = float(law.speed(law.coefficients(ranks[kept], sps[kept]), [last])[0])
    return {"ranks": int(last), "measured": measured, "predicted": predicted, "error": predicted / measured - 1}


def _needed(law, best, draws, target):
    """Ranks for ``target`` steps/s. ``high`` None: more than 2.5 % of the fits never reach it."""
    found = sorted(law.needed(draw, target) or math.inf for draw in draws) or [math.inf]
    ends = found[int(0.025 * len(found))], found[math.ceil(0.975 * len(found)) - 1]
    low, high = (ranks if ranks < math.inf else None for ranks in ends)
    return {"sps": target, "ranks": law.needed(best, target), "low": low, "high": high, "interval": bool(draws)}


def table(fits):
    """Format the fits as text."""
    lines = []
    for fit in fits:
        lines.append(f"{fit['law']}: {fit['equation']}")
        if "problem" in fit:
            lines += [f"  {fit['problem']}", ""]
            continue
        for name, found in fit["parameters"].items():
            lines.append(f"  {name:<11}{_number(found['value']):>11}   {_between(found['low'], found['high'])}")
        left = fit["left_out"]
        check = f"{left['ranks']} ranks predicted from the others: {left['error']:+.1%}" if left else "too few to check"
        lines.append(f"  {fit['points']} points, relative error {fit['error']:.1%}; {check}")
        lines += [f"  {_answer(needed)}" for needed in fit["needed"]]
        lines.append("")
    return "\n".join(lines[:-1])


def _answer(needed):
    ranks = "never" if needed["ranks"] is None else f"{needed['ranks']:,} ranks"
    low, high = ("never" if needed[end] is None else f"{needed[end]:,}" for end in ("low", "high"))
    interval = f"95 %: {low} to {high}" if needed["interval"] else "as many points as parameters: no interval"
    return f"{needed['sps']:,.0f} steps/s: {ranks} ({interval})"


def _between(low, high):
    return "" if low is None else f"95 %: {_number(low)} to {'unbounded' if high is None else _number(high)}"


def _number(value):
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.4g}"
