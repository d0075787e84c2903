"""The doctor's findings for synthetic facts of ranks, with one fault at a time."""

import tracemalloc

import pytest

from pg_mpi.doctor import __main__ as doctor
from pg_mpi.doctor import machine, text, trials, verdict
from pg_mpi.doctor.facts import file_system
from pg_mpi.mpi.world import World
from scaling.model.virtual.world import Hub

MEMORY = {"alone": 12.5, "together": 7.0}
QUICK = {8: 13e-6, 65_536: 60e-6, 4_194_304: 2e-3}


def rank(number, threads, host="n1", **changes):
    """Return a sane rank's facts: one BLAS thread, and hardware threads on separate cores."""
    return {
        "rank": number,
        "host": host,
        "threads": list(threads),
        "cores": list(threads),
        "host_threads": 4,
        "cpu_quota": None,
        "sits_on": threads[0],
        "blas": [{"api": "openblas", "version": "0.3.31", "threads": 1, "file": "/env/libopenblas.so"}],
        "mpi": {
            "version": "Open MPI v5.0.11",
            "libraries": ["/env/libmpi.so.40"],
            "binding": "MPI.openmpi.so",
            "launcher": "prted",
        },
        "memory_mb": 16_000,
        "numa": [[0, 1], [2, 3]],
        "allocated_cores": [],
        "fabrics": [],
        "fabric_in_use": False,
        "versions": {"python": "3.11.7", "numpy": "2.4.6"},
        "why_numpy": None,
        "import_s": 1.5,
        "imported": {"modules": 180, "from": "/shared/env", "file_system": "lustre"},
        "emulator": {"rom": "pong.bin", "rom_sha256": "abc", "sps": 4700, "cpu_share": 0.99},
        **changes,
    }


def names(ranks, started=None, exchange=QUICK):
    """Return (names of the faults, names of the notes)."""
    found = verdict.findings(ranks, started or len(ranks), exchange)
    return [f.name for f in found if f.fault], [f.name for f in found if not f.fault]


def bound(*cores, **changes):
    """Return one rank for each core, bound to it."""
    return [rank(number, [core], **changes) for number, core in enumerate(cores)]


SANE = {
    "bound": bound(0, 1, 2, 3),
    "not bound": [rank(number, range(4)) for number in range(4)],
    "fewer than cores": [rank(number, range(4)) for number in range(2)],
    "one bound, others not": [rank(0, [0]), *(rank(number, range(4)) for number in (1, 2, 3))],
    "two hosts": [rank(0, [0]), rank(1, [0], host="n2")],
    "one rank, BLAS on all its cores": [
        rank(0, range(4), blas=[{"api": "mkl", "version": "1", "threads": 4, "file": ""}])
    ],
}


@pytest.mark.parametrize("case", SANE)
def test_sane_launch_has_no_findings(case):
    assert names(SANE[case]) == ([], [])


def pool(threads):
    return [{"api": "openblas", "version": "0.3.31", "threads": threads, "file": "/env/libopenblas.so"}]


def changed(facts, **changes):
    return {**facts, **changes}


ONE = bound(0, 1)
WRONG = {
    "18 threads in each of 18 ranks": (
        [rank(n, range(18), host_threads=18, blas=pool(18)) for n in range(18)],
        "threads",
    ),
    "two threads on one core": ([rank(0, [0], blas=pool(2))], "threads"),
    "more ranks than hardware threads": ([rank(n, range(4)) for n in range(5)], "oversubscribed"),
    "more ranks than a quota allows": (bound(0, 1, 2, 3, cpu_quota=2), "oversubscribed"),
    "two ranks on one core": (bound(1, 1), "shared"),
    "three on two, one of them free": ([rank(0, [0]), rank(1, [0]), rank(2, range(4))], "shared"),
    "sibling threads": ([changed(rank(n, [n]), cores=[0]) for n in (0, 1)], "siblings"),
    "little memory": (bound(0, 1, memory_mb=500), "memory"),
    "other numpy on one host": (
        [ONE[0], rank(1, [1], host="n2", versions={"python": "3.11.7", "numpy": "1.26.0"})],
        "versions",
    ),
    "other MPI on one host": ([ONE[0], rank(1, [1], mpi={**ONE[0]["mpi"], "version": "MPICH 4.2"})], "libraries"),
    "two MPIs in one rank": (
        [rank(0, [0], mpi={**ONE[0]["mpi"], "libraries": ["/a/libmpi.so", "/b/libmpi.so"]})],
        "libraries",
    ),
    "no ROM": (bound(0, 1, emulator={"error": "OSError: no file"}), "emulator"),
    "other ROM": ([ONE[0], rank(1, [1], emulator={**ONE[0]["emulator"], "rom_sha256": "def"})], "emulator"),
    "slow import": ([ONE[0], rank(1, [1], import_s=51.0)], "import"),
    "a core that another process uses": (
        [ONE[0], rank(1, [1], emulator={**ONE[0]["emulator"], "cpu_share": 0.5})],
        "busy",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_each_fault_is_found_alone(case):
    ranks, name = WRONG[case]
    assert names(ranks) == ([name], [])


def test_fault_names_cause_ranks_and_cure():
    (found,) = verdict.findings(*([WRONG["18 threads in each of 18 ranks"][0]]), 18, QUICK)
    assert "openblas runs 18 threads in rank 0, 324 in all 18 ranks, on 18 cores" in found.text
    assert "OMP_NUM_THREADS=1" in found.cure
    (found,) = verdict.findings(WRONG["other numpy on one host"][0], 2, QUICK)
    assert found.text == "numpy 2.4.6 on rank 0 (n1); numpy 1.26.0 on rank 1 (n2)"


def test_other_numbers_of_ranks_than_expected_are_a_fault():
    for expected in (1, 4):
        (found,) = verdict.findings(bound(0, 1), 2, QUICK, expected)
        assert found.fault and found.text == f"2 ranks, where {expected} were expected"


def test_numpy_features_are_a_note():
    ranks = [ONE[0], rank(1, [1], host="n2", why_numpy="encoder.c is not compiled")]
    assert names(ranks) == ([], ["numpy"])
    (found,) = verdict.findings(ranks, 2, QUICK)
    assert "numpy on rank 1 (n2)" in found.text and "not compiled" in found.text and "C compiler" in found.cure


@pytest.mark.parametrize("slow", [{8: 4.9e-3, 4_194_304: 9e-3}, {8: 50e-6, 4_194_304: 0.7}])
def test_slow_exchange_is_a_network_fault(slow):
    assert names(ONE, exchange=slow) == (["network"], [])
    assert names(ONE, exchange={}) == ([], [])


def test_slow_exchange_on_a_shared_core_is_no_network_fault():
    assert names(bound(1, 1), exchange={8: 4.9e-3, 4_194_304: 9e-3}) == (["shared"], [])


def test_singleton_worlds_are_a_fault():
    single = rank(0, range(4))
    (found,) = verdict.findings([single], 18, {})
    assert found.name == "alone" and found.fault
    assert "18 processes were started, and MPI sees 1" in found.text and "mpirun of Open MPI v5.0.11" in found.cure
    single["mpi"]["launcher"] = "slurmstepd"
    assert "srun --mpi=pmix" in verdict.findings([single], 18, {})[0].cure


def test_text_of_a_large_job_fits_one_screen():
    ranks = [rank(n, [n % 128], host=f"n{n // 128:03}", host_threads=128, memory_mb=8_000) for n in range(1280)]
    ranks[700]["blas"] = pool(4)
    found = [finding._asdict() for finding in verdict.findings(ranks, 1280, QUICK)]
    lines = text.text({"ranks": ranks, "allreduce_s": QUICK, "memory_gb_s": MEMORY, "findings": found})
    assert len(lines) < 55 and max(map(len, lines)) < 250
    assert "openblas 0.3.31, 4 threads in 1 of 1280 ranks" in "\n".join(lines)
    assert (
        sum(line.startswith("FAULT memory: ") for line in lines) == 3
        and "    ... and 7 more of memory: see --json" in lines
    )
    assert lines[-1] == "verdict: 11 faults"


def test_text_of_a_sane_launch():
    ranks = bound(0, 1, fabrics=[{"name": "mlx5_0", "gbit_s": 100.0}], fabric_in_use=True)
    lines = text.text({"ranks": ranks, "allreduce_s": QUICK, "memory_gb_s": MEMORY, "findings": []})
    page = "\n".join(lines)
    assert lines[0] == "2 ranks on 1 host, started by prted; Open MPI v5.0.11"
    assert "8 B 13 us, 66 kB 60 us, 4.2 MB 2.0 ms" in page and "9,400 steps/s in all" in page
    assert "NUMA domain 0 (hardware threads 0-1): ranks 0-1" in page
    assert "NUMA domain 1 (hardware threads 2-3): no rank bound to it" in page
    assert "fabric        mlx5_0 100 Gbit/s, in use; an Allreduce moves 16.8 Gbit/s" in page
    assert lines[-1] == "verdict: sane"
    ranks[0]["emulator"] = {"error": "OSError: no file"}
    page = "\n".join(text.text({"ranks": ranks, "allreduce_s": QUICK, "memory_gb_s": MEMORY, "findings": []}))
    assert "emulator      pong.bin (sha256 abc), 4,700 steps/s in all, 4,700 the slowest (rank 1)" in page


def test_cores_without_a_rank_are_a_note():
    found = verdict.findings(bound(0, 1, allocated_cores=[0, 1, 2, 3]), 2, QUICK)
    assert [(f.name, f.fault, f.text) for f in found] == [
        ("idle", False, "n1: no rank on 2 of the 4 cores that this job has there")
    ]
    assert names(bound(0, 1, allocated_cores=[0, 1])) == ([], [])
    assert names(bound(0, 1, allocated_cores=[0, 1, 2, 3], cpu_quota=2)) == ([], [])


def test_tcp_beside_a_fast_network_is_a_fault():
    fabrics = [{"name": "mlx5_0", "gbit_s": 25.0}, {"name": "mlx5_1", "gbit_s": 200.0}]
    two = [rank(0, [0], fabrics=fabrics), rank(1, [1], host="n2", fabrics=fabrics)]
    (found,) = verdict.findings(two, 2, QUICK)
    assert found.name == "fabric" and found.fault and "mlx5_1 (200 Gbit/s)" in found.text
    assert names([changed(each, fabric_in_use=True) for each in two]) == ([], [])
    assert names(bound(0, 1, fabrics=fabrics)) == ([], []), "one host needs no network"


def tree(root, **files):
    """Write files below ``root``; a double underscore in a name separates folders."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


MEMINFO = "MemTotal: 65536000 kB\nMemAvailable: 16384000 kB\n"  # 16,000 MB


def test_memory_is_measured_with_half_of_what_is_free():
    tracemalloc.start()
    try:
        trials.memory(World(), 0.01, free_mb=100)
        assert 45e6 < tracemalloc.get_traced_memory()[1] < 51e6
    finally:
        tracemalloc.stop()


def test_ranks_of_a_host_share_half_of_what_is_free(monkeypatch):
    sizes = []
    monkeypatch.setattr(trials, "_triad", lambda seconds, size: sizes.append(size) or 1.0)
    monkeypatch.setattr(trials, "is_first_on_host", lambda: False)  # counted as one host
    Hub(6, lambda size: 0.0).run(lambda world: trials.memory(world, 0.01, free_mb=100))
    half = 100 * 10**6 // 2 // (3 * 8)
    assert sorted(sizes) == [half // 6] * 6 + [half]


def test_memory_limit_is_that_of_the_own_cgroup_in_version_2(tmp_path):
    tree(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/slurm/job_7/step_0\n")
    assert machine.memory_mb(tmp_path) == 16_000
    step = {"memory.max": "max\n", "memory.current": "1000000000\n"}
    job = {
        "memory.max": f"{4 << 30}\n",
        "memory.current": f"{3 << 30}\n",
        "memory.stat": f"inactive_file {512 << 20}\n",
    }
    for folder, files in (("slurm/job_7/step_0", step), ("slurm/job_7", job)):
        tree(tmp_path / "sys/fs/cgroup" / folder, **files)
    assert machine.memory_mb(tmp_path) == 1024 + 512


def test_memory_limit_is_that_of_the_own_cgroup_in_version_1(tmp_path):
    groups = "12:cpuset:/slurm\n5:memory:/slurm/job_7\n0::/init\n"
    tree(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup=groups)
    for folder, limit, used in (("slurm/job_7", 2 << 30, 1 << 30), ("slurm", 9223372036854771712, 5 << 30)):
        files = {"memory.limit_in_bytes": f"{limit}\n", "memory.usage_in_bytes": f"{used}\n"}
        tree(tmp_path / "sys/fs/cgroup/memory" / folder, **files)
    assert machine.memory_mb(tmp_path) == 1024


def test_numa_domains_are_in_their_order(tmp_path):
    for node, threads in (("node10", "20-21"), ("node2", "4-5,8"), ("node0", "0-1\n"), ("node3", "\n")):
        tree(tmp_path / "sys/devices/system/node" / node, cpulist=threads)
    assert machine.numa_domains(tmp_path) == [[0, 1], [4, 5, 8], [20, 21]]


def test_fabrics_are_ports_and_devices_with_a_link(tmp_path):
    ports = tmp_path / "sys/class/infiniband"
    tree(ports / "mlx5_0/ports/1", rate="100 Gb/sec (4X EDR)\n", state="4: ACTIVE\n")
    tree(ports / "mlx5_1/ports/1", rate="10 Gb/sec (4X SDR)\n", state="1: DOWN\n")
    tree(tmp_path / "sys/class/cxi/cxi0/device/net/hsn0", speed="200000\n")
    tree(tmp_path / "sys/class/cxi/cxi1/device/net/hsn1", speed="-1\n")
    assert machine.fabrics(tmp_path) == [{"name": "mlx5_0", "gbit_s": 100.0}, {"name": "cxi0", "gbit_s": 200.0}]
    assert machine.fabrics(tmp_path / "none") == []


def test_device_of_a_network_is_in_use_while_it_is_open(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "DEVICES", (str(tmp_path / "uverbs"),))
    (tmp_path / "uverbs0").touch()
    assert not machine.fabric_in_use()
    with open(tmp_path / "uverbs0"):
        assert machine.fabric_in_use()
    assert not machine.fabric_in_use()


def test_file_system_is_that_of_the_nearest_mount_point(tmp_path):
    (tmp_path / "mounts").write_text("/dev/a / ext4 rw 0 0\nfs:/x /ho lustre rw 0 0\nfs:/y /home/me nfs4 rw 0 0\n")
    kinds = [file_system(path, tmp_path / "mounts") for path in ("/home/me/env", "/home/mel", "/ho", "/opt")]
    assert kinds == ["nfs4", "ext4", "lustre", "ext4"]
    assert file_system("/opt", tmp_path / "none") is None


def tell(ranks, *flags):
    return doctor._print_result(
        doctor.parser().parse(list(flags)), ranks, {"allreduce_s": QUICK, "memory_gb_s": MEMORY}
    )


def test_strict_fails_on_a_fault_and_not_on_a_note(capsys):
    noted = bound(0, 1, why_numpy="no compiler")
    assert tell(noted, "--strict", "--expect-ranks", "2") == 0 and "note numpy" in capsys.readouterr().out
    assert tell(noted, "--strict", "--expect-ranks", "3") == 1 and "FAULT ranks" in capsys.readouterr().out
