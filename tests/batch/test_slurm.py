"""jobs/train.slurm on a real SLURM: submitted, stopped early, preempted, killed - and finished all the same."""

import json
import time

import jobs
import pytest
from hosts import wait_for
from submitted import finished, kill_a_rank, log, ranks_of, same_end, starts, submit, until_it_trains

pytestmark = pytest.mark.batch


def run_through(slurm, folder, steps):
    """A run on two nodes that nothing stops."""
    folder.mkdir()
    job = submit(slurm, folder, ["--nodes=2"], "--total-timesteps", steps, PG_MPI_LAUNCHER="mpirun")
    slurm.until(job, "COMPLETED", 200)
    assert finished(folder) and len(starts(folder)) == 1, log(folder)


@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("launcher", ["mpirun", "srun --mpi=pmix"])
def test_a_job_finishes_in_one_world(slurm, tmp_path, nodes, launcher):
    job = submit(slurm, tmp_path, [f"--nodes={nodes}"], "--total-timesteps", "3000", PG_MPI_LAUNCHER=launcher)
    slurm.until(job, "COMPLETED", 90)
    assert finished(tmp_path), log(tmp_path)
    (start,) = starts(tmp_path)
    assert start["ranks"] == nodes and start["job"]["SLURM_JOB_ID"] == job
    assert f"{nodes} ranks by {launcher}" in log(tmp_path)
    hosts = ", ".join(slurm.hosts.names[:nodes])
    assert f"{nodes} ranks on {nodes} hosts ({hosts})" in log(tmp_path)


def test_the_launcher_is_found(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=2"], "--total-timesteps", "2000")
    slurm.until(job, "COMPLETED", 120)
    assert "2 ranks by srun --mpi=pmix" in log(tmp_path)


def test_the_doctor_speaks_first(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=1"], "--total-timesteps", "1000", PG_MPI_LAUNCHER="mpirun", DOCTOR="1")
    slurm.until(job, "COMPLETED", 90)
    text = log(tmp_path)
    assert 0 < text.index("verdict: sane") < text.index("new run in run")


def test_a_chain_of_starts_ends_with_the_same_bits(slurm, tmp_path):
    """Three times the job's time limit stops it, and it stands where one stands that ran through.

    SLURM looks at the limits every half minute, so nobody knows beforehand how far a start comes: the chain is run
    first, until its fourth start has learned something, and then as many steps in one go.
    """
    options, chain = ["--nodes=2", "--time=1", "--signal=B:USR1@58"], tmp_path / "chain"
    chain.mkdir()
    job = submit(slurm, chain, options, PG_MPI_LAUNCHER="mpirun", PG_MPI_LEAD="5")
    slurm.until(job, "RUNNING", 30)
    for start in (1, 2, 3):
        wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", 90, lambda: log(chain))
        slurm.until(job, "RUNNING", 30)
        assert log(chain).count("asked to stop by a signal") == start == len(starts(chain)), log(chain)
    until_it_trains(chain, len(jobs.metrics(chain)) + 1)
    slurm.ask("scancel", "--batch", "--signal=USR1", job)
    wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", 30, lambda: log(chain))
    slurm.ask("scancel", job)
    assert not finished(chain)
    run_through(slurm, tmp_path / "whole", jobs.metrics(chain)[-1]["env_steps"])
    same_end(chain, tmp_path / "whole")


def test_a_preempted_job_ends_with_the_same_bits(slurm, tmp_path):
    (tmp_path / "high").mkdir()
    flags = ["--total-timesteps", "50000"]
    job = submit(slurm, tmp_path, ["--nodes=2"], *flags, PG_MPI_LAUNCHER="mpirun")
    until_it_trains(tmp_path, 4)
    high = slurm.submit(tmp_path / "high", "-p", "high", "--nodes=4", "--exclusive", "--wrap", "sleep 2")
    slurm.until(high, "COMPLETED", 60)
    slurm.until(job, "COMPLETED", 120)
    assert finished(tmp_path) and len(starts(tmp_path)) == 2, log(tmp_path)
    assert "asked to stop by a signal" in log(tmp_path)
    run_through(slurm, tmp_path / "whole", flags[-1])
    same_end(tmp_path, tmp_path / "whole")


@pytest.mark.quick
@pytest.mark.parametrize("how", ["requeued", "asked"])
def test_a_job_that_an_operator_stops_goes_on(slurm, tmp_path, how):
    """Both let it checkpoint: srun's ranks hear ``scontrol requeue``'s TERM some seconds before its KILL."""
    flags = ["--total-timesteps", "40000", "--checkpoint-every", "2"]
    job = submit(slurm, tmp_path, ["--nodes=2"], *flags, PG_MPI_LAUNCHER="srun --mpi=pmix")
    until_it_trains(tmp_path, 4)
    slurm.ask(*(["scontrol", "requeue"] if how == "requeued" else ["scancel", "--batch", "--signal=USR1"]), job)
    slurm.until(job, "COMPLETED", 120)
    assert finished(tmp_path) and len(starts(tmp_path)) == 2, log(tmp_path)
    assert "asked to stop by a signal" in log(tmp_path)


def test_a_cancelled_job_leaves_nothing_running(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=2"], PG_MPI_LAUNCHER="mpirun")
    until_it_trains(tmp_path, 2)
    assert set(ranks_of(job)) == {0, 1}
    slurm.ask("scancel", job)
    slurm.until(job, "CANCELLED", 30)
    wait_for(lambda: not ranks_of(job), 20, "its ranks to end")
    assert not finished(tmp_path) and "finished" not in log(tmp_path)


@pytest.mark.parametrize("launcher", ["mpirun", "srun --mpi=pmix"])
def test_a_killed_rank_is_run_again(slurm, tmp_path, launcher):
    flags = ["--total-timesteps", "50000", "--checkpoint-every", "2"]
    job = submit(slurm, tmp_path, ["--nodes=4"], *flags, PG_MPI_LAUNCHER=launcher)
    until_it_trains(tmp_path, 3)
    kill_a_rank(job)
    wait_for(lambda: "it is to go on from" in log(tmp_path), 30, lambda: log(tmp_path))
    assert not finished(tmp_path)
    slurm.until(job, "COMPLETED", 120)
    assert finished(tmp_path) and len(starts(tmp_path)) == 2, log(tmp_path)


@pytest.mark.parametrize("launcher", ["mpirun", "srun --mpi=pmix"])
def test_a_job_whose_link_is_cut_is_run_again(slurm, tmp_path, launcher):
    """A node of four is cut off for good: within 30 s nothing of the job runs, and once it is back the job finishes."""
    flags = ["--total-timesteps", "60000", "--checkpoint-every", "2"]
    job = submit(slurm, tmp_path, ["--nodes=4"], *flags, PG_MPI_LAUNCHER=launcher)
    until_it_trains(tmp_path, 5)
    slurm.hosts.cut("n3")
    cut = time.monotonic()
    try:
        wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", 30, lambda: log(tmp_path))
        took = time.monotonic() - cut
        assert not finished(tmp_path)
    finally:
        slurm.hosts.shrink("n3")
    slurm.until(job, "COMPLETED", 180)
    assert finished(tmp_path) and len(starts(tmp_path)) == 2, log(tmp_path)
    print(f"the job of a cut-off node was waiting to run again after {took:.0f} s")


def test_starts_without_progress_end_it(slurm, tmp_path):
    """A trainer that dies before its first checkpoint, each time, is not run for ever."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "step-000000000100.npz").write_bytes(b"nothing")
    job = submit(slurm, tmp_path, ["--nodes=1"], PG_MPI_LAUNCHER="/bin/false", PG_MPI_STALLS="2")
    slurm.until(job, "FAILED", 90)
    assert slurm.job(job)["ExitCode"] == "1:0"
    assert "2 starts in a row made no progress: stopped for good" in log(tmp_path)


def test_wrong_usage_is_not_run_again(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=2"], "--gama", "0.9")
    slurm.until(job, "FAILED", 60)
    assert log(tmp_path).count("did you mean --gamma") == 1
    assert slurm.job(job)["Restarts"] == "0" and slurm.job(job)["ExitCode"] == "2:0"


@pytest.mark.parametrize("of", ["seeds", "settings"])
def test_an_array_goes_on_by_task(slurm, tmp_path, of):
    """Each task has a run folder of its own; one that is asked to stop requeues itself, and not the other."""
    told, runs = {}, [f"runs/pong-default-s{task}" for task in (1, 2)]
    if of == "settings":
        (tmp_path / "list.txt").write_text("--seed 1 --gamma 0.9\n--seed 2 --actions 'NOOP,RIGHT,LEFT'\n")
        told, runs = {"SETTINGS": "list.txt", "PG_MPI_LAUNCHER": "mpirun"}, ["runs/list-1", "runs/list-2"]
    options = ["--array=1-2", "--nodes=1", "--output=%a.log"]
    array = submit(slurm, tmp_path, options, "--total-timesteps", "30000", script="tune.slurm", **told)
    for run in runs:
        until_it_trains(tmp_path, 1, run)
    slurm.ask("scancel", "--batch", "--signal=USR1", f"{array}_2")
    slurm.until(f"{array}_2", "PENDING", 30)
    slurm.until(f"{array}_2", "COMPLETED", 90)
    slurm.until(f"{array}_1", "COMPLETED", 90)
    assert [len(starts(tmp_path, run)) for run in runs] == [1, 2]
    assert all(finished(tmp_path, run) for run in runs)
    assert [starts(tmp_path, run)[0]["job"]["SLURM_ARRAY_TASK_ID"] for run in runs] == ["1", "2"]
    if of == "settings":
        facts = [json.loads((tmp_path / run / "config.json").read_text())["settings"] for run in runs]
        assert (facts[0]["gamma"], facts[1]["actions"]) == (0.9, "NOOP,RIGHT,LEFT")


def test_an_array_works_on_one_study(slurm, tmp_path):
    """Four trials between two tasks; one of them is stopped, requeued, and goes on with what it had begun."""
    (tmp_path / "space.toml").write_text("[gamma]\nlow = 0.9\nhigh = 0.99\n")
    told = {"SPACE": "space.toml", "STUDY": "a study.run_log", "PG_MPI_LAUNCHER": "mpirun"}
    flags = [*jobs.STEPS, "--checkpoint-every", "4", "--trials", "4", "--budget", "25", "--ranks-per-trial", "1"]
    array = submit(
        slurm, tmp_path, ["--array=1-2", "--nodes=1", "--output=%a.log"], *flags, script="tune.slurm", **told
    )
    trials = tmp_path / "a study.trials"
    wait_for(lambda: len(list(trials.glob("*/checkpoints/*.npz"))) >= 2, 90, lambda: log(tmp_path, "1.log"))
    slurm.ask("scancel", "--batch", "--signal=USR1", f"{array}_2")
    slurm.until(f"{array}_2", "PENDING", 30)
    slurm.until(f"{array}_1", "COMPLETED", 150)
    slurm.until(f"{array}_2", "COMPLETED", 150)
    assert (trials / "DONE").exists() and json.loads((trials / "DONE").read_text())["trials"] == 4
    begun = [starts(trials, f"{slot:04d}") for slot in range(4)]
    assert sorted(map(len, begun)) == [1, 1, 1, 2], "the trial that was stopped did not go on where it was"
    assert {start["job"]["SLURM_ARRAY_TASK_ID"] for start in sum(begun, [])} == {"1", "2"}


def test_an_array_task_without_a_setting_says_so(slurm, tmp_path):
    (tmp_path / "list.txt").write_text("--seed 1\n")
    job = submit(slurm, tmp_path, ["--array=2", "--nodes=1"], script="tune.slurm", SETTINGS="list.txt")
    slurm.until(f"{job}_2", "FAILED", 60)
    assert "list.txt has no line 2" in log(tmp_path)


def test_a_sweep_that_is_stopped_goes_on(slurm, tmp_path):
    """A point that was measured before the stop is not measured again."""
    flags = ["--seconds", "8", "--warmup", "1", "--repeats", "2", *jobs.STEPS]
    told = {"script": "scaling.slurm", "PG_MPI_LAUNCHER": "srun --mpi=pmix"}
    job = submit(slurm, tmp_path, ["--nodes=2"], *flags, **told)
    first = tmp_path / "runs" / f"sweep-{job}" / "ranks-000001-0.json"
    wait_for(first.exists, 60, lambda: log(tmp_path))
    measured = first.stat().st_mtime_ns
    slurm.ask("scancel", "--batch", "--signal=USR1", job)
    wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", 30, lambda: log(tmp_path))
    slurm.until(job, "COMPLETED", 120)
    points = sorted(path.name for path in first.parent.glob("ranks-*.json"))
    assert points == [f"ranks-{ranks:06d}-{repeat}.json" for ranks in (1, 2) for repeat in (0, 1)]
    assert first.stat().st_mtime_ns == measured
    assert not list(tmp_path.glob(".sweep-*")), "the run of a point was left behind"
    assert log(tmp_path).count("steps/s ") == 1
