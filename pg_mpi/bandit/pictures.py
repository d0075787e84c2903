"""Draw the testbed's results."""

from collections.abc import Sequence
from typing import Any

from pg_mpi.bandit.plan import KINDS
from pg_mpi.bandit.testbed import Task
from pg_mpi.files.figure_file import axes_of


def draw_curves(path: str, results: Sequence[Any], task: Task) -> None:
    """Draw average reward and share of best arms pulled against steps, a line for each method."""
    with axes_of(path, columns=2, size=(12, 4.2)) as (reward, optimal):
        steps = range(1, task.steps + 1)
        for result in results:
            for axes, (mean, half) in ((reward, result.reward), (optimal, result.optimal)):
                (line,) = axes.plot(steps, mean, linewidth=1, label=result.method.name)
                axes.fill_between(steps, mean - half, mean + half, color=line.get_color(), alpha=0.15, linewidth=0)
        reward.set(xlabel="steps", ylabel="reward, mean of the runs", xlim=(1, task.steps))
        optimal.set(xlabel="steps", ylabel="runs that pull the best arm", xlim=(1, task.steps), ylim=(0, 1))
        optimal.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        optimal.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
        reward.set_title(_title(task), loc="left")


def draw_study(path: str, results: Sequence[Any], task: Task) -> None:
    """Draw average reward over all steps against the parameter of each kind of method, as figure 2.6 of the book."""
    with axes_of(path, size=(8, 4.6)) as axes:
        for kind, known in KINDS.items():
            found = [result for result in results if result.method.kind == kind]
            means, halves = zip(*(result.whole for result in found))
            values = [result.method.value for result in found]
            axes.errorbar(values, means, halves, marker="o", markersize=3, linewidth=1.2, capsize=2, label=kind)
            best = max(range(len(means)), key=means.__getitem__)
            name = {"alpha": "α", "epsilon": "ε", "Q_1": "$Q_1$", "c": "c"}[known.symbol]
            axes.annotate(name, (values[best], means[best]), (0, 8), textcoords="offset points", ha="center")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"1/{1 / value:g}" if value < 1 else f"{value:g}")
        axes.set(xlabel="ε, α, c or $Q_1$", ylabel=f"reward, mean of the first {task.steps:,} steps")
        axes.legend(loc="lower left", frameon=False)
        axes.set_title(_title(task), loc="left")


def _title(task: Task) -> str:
    walks = f", drifting by {task.drift:g} a step" if task.drift else ""
    return f"{task.runs:,} bandits of {task.arms} arms{walks}"
