"""``scaling.measure.population``: memory of rank 0 does not grow with the number of ranks."""

import json

from scaling.measure import population


def test_memory_of_rank_0_does_not_grow(capsys):
    flags = ["--ranks", "1000,100000", "--repeats", "1", "--preset", "fast", "--hidden", "16", "--json"]
    assert population.main(flags) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["rows"]
    small, large = ({row["part"]: row["peak_mb"] for row in rows if row["ranks"] == ranks} for ranks in (1000, 100_000))
    for part, megabytes in large.items():
        assert megabytes < 1.1 * small[part] + 2, part
    assert large["save"] < 64 and large["resume"] < 64
