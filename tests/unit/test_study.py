"""Which trials of a study are pruned."""

from pg_mpi.tune.study import Study
from pg_mpi.tune.trial import PRUNED, Judge


def test_the_worse_trial_is_pruned(tmp_path):
    def study():
        return Study(str(tmp_path / "tune.journal"), {"gamma": {"low": 0.9, "high": 0.99}}, 9, 0)

    decisions = []
    for score in (10.0, 0.0, 20.0):
        each = study()
        each.next_task()
        decisions.append(each.report(1, score))
        each.report(2, score + 1)
        each.tell("pruned")
    assert decisions == [False, True, False] and [row.score for row in study().rows()] == [11.0, 1.0, 21.0]


def test_judge_reports_each_part_once():
    asked = []
    judge = Judge(8.0, lambda *each: asked.append(each) or each[0] == 2)
    found = [judge(seconds, 5.0) for seconds in (0.5, 1.5, 1.6, 2.5)]
    assert found == [None, None, None, PRUNED] and asked == [(1, 5.0), (2, 5.0)]
    assert judge(8.0, None) == "complete"
