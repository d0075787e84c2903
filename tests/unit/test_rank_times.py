"""Seconds by rank: listed on few ranks, quantiles on many, the slowest always."""

import numpy as np
import pytest

from pg_mpi.mpi.world import World
from pg_mpi.run import rank_times
from scaling.model.virtual.world import Hub


def summaries(waits):
    """The summary on each of as many virtual ranks, whose emulator takes ten seconds and the number of the rank."""
    seconds = [{"emulator": 10.0 + rank, "wait": wait} for rank, wait in enumerate(waits)]
    return Hub(len(waits), lambda size: 0.0).run(lambda world: rank_times.summary(world, seconds[world.rank]))


def test_one_rank():
    found = rank_times.summary(World(), {"emulator": 2.0, "wait": 0.5})
    assert found == {
        "phase_s": {"emulator": [2.0], "wait": [0.5]},
        "slowest": [{"rank": 0, "phase_s": {"emulator": 2.0, "wait": 0.5}}],
    }


def test_few_ranks_are_listed():
    waits = [3.0, 1.0, 2.0] + [4.0] * 9
    found = summaries(waits)
    assert all(each == found[0] for each in found)
    assert found[0]["phase_s"] == {"emulator": [10.0 + rank for rank in range(12)], "wait": waits}
    assert [row["rank"] for row in found[0]["slowest"]] == [1, 2, 0, 3, 4, 5, 6, 7, 8, 9]
    assert found[0]["slowest"][0]["phase_s"] == {"emulator": 11.0, "wait": 1.0}


@pytest.mark.parametrize("waits", [np.random.default_rng(0).exponential(size=150), np.full(80, 0.25)])
def test_many_ranks_have_quantiles(waits):
    found = summaries(waits.tolist())[0]
    assert "phase_s" not in found and len(found["slowest"]) == rank_times.SLOWEST
    wait = np.array(found["quantiles_s"]["wait"])
    expected = np.quantile(waits, rank_times.QUANTILES, method="higher")
    np.testing.assert_allclose(wait, expected, rtol=0, atol=np.ptp(waits) / rank_times.BINS + 5e-4)
    assert wait[0] == pytest.approx(waits.min(), abs=5e-4) and wait[-1] == pytest.approx(waits.max(), abs=5e-4)
    assert found["slowest"][0]["rank"] == int(waits.argmin())
