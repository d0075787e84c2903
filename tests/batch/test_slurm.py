"""The job scripts on a real SLURM: jobs that finish, are stopped, preempted, requeued, cancelled or lose a rank."""

import json
import time

import jobs
import pytest
from hosts import wait_for
from submitted import (
    ENVIRONMENT,
    SCRIPTS,
    SMALL,
    assert_equal_results,
    finished,
    kill_rank,
    log,
    ranks_of,
    starts,
    submit,
    wait_for_updates,
)

from pg_mpi.config.errors import counted
from pg_mpi.files import checkpoint_folder

pytestmark = pytest.mark.batch


def run_uninterrupted(slurm, folder, steps):
    """Train on two nodes without an interruption."""
    folder.mkdir()
    job = submit(slurm, folder, ["--nodes=2"], "--total-timesteps", steps, PG_MPI_LAUNCHER="mpirun")
    slurm.wait_for_state(job, "COMPLETED", 200)
    assert finished(folder) and len(starts(folder)) == 1, log(folder)


@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("launcher", ["mpirun", "srun --mpi=pmix"])
def test_job_finishes_in_one_world(slurm, tmp_path, nodes, launcher):
    job = submit(slurm, tmp_path, [f"--nodes={nodes}"], "--total-timesteps", "3000", PG_MPI_LAUNCHER=launcher)
    slurm.wait_for_state(job, "COMPLETED", 90)
    assert finished(tmp_path), log(tmp_path)
    (start,) = starts(tmp_path)
    assert start["ranks"] == nodes and start["job"]["SLURM_JOB_ID"] == job
    assert f"{nodes} ranks by {launcher}" in log(tmp_path)
    hosts = ", ".join(slurm.hosts.names[:nodes])
    assert f"{counted(nodes, 'rank')} on {counted(nodes, 'host')} ({hosts})" in log(tmp_path)


def test_launcher_is_chosen_automatically(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=2"], "--total-timesteps", "2000")
    slurm.wait_for_state(job, "COMPLETED", 120)
    assert "2 ranks by srun --mpi=pmix" in log(tmp_path)


@pytest.mark.parametrize("launcher", ["mpirun", "srun --mpi=pmix"])
def test_without_a_number_of_tasks_each_core_has_a_rank(slurm, tmp_path, launcher):
    line = ["--nodes=2", "--exclusive", "--time=5", "--output=job.log", SCRIPTS / "train.slurm", "--run-dir", "run"]
    flags = [*SMALL, "--total-timesteps", "3000"]
    job = slurm.submit(tmp_path, *line, *flags, **ENVIRONMENT, PG_MPI_LAUNCHER=launcher)
    slurm.wait_for_state(job, "COMPLETED", 90)
    cores = int(slurm.job(job)["NumCPUs"])
    assert f"a rank for each of the {cores} cores of the allocation" in log(tmp_path)
    assert starts(tmp_path)[0]["ranks"] == cores >= 2


def test_job_that_may_not_be_requeued_submits_its_successor(slurm, tmp_path):
    flags = ["--total-timesteps", "72000", "--max-walltime", "6"]
    first = submit(slurm, tmp_path, ["--nodes=2", "--no-requeue"], *flags, PG_MPI_LAUNCHER="mpirun")
    wait_for(lambda: finished(tmp_path), 300, lambda: log(tmp_path))
    numbers = [start["job"]["SLURM_JOB_ID"] for start in starts(tmp_path)]
    assert len(numbers) >= 2 and numbers == [str(int(first) + n) for n in range(len(numbers))]
    assert all(start["ranks"] == 2 for start in starts(tmp_path)) and "the next start is" in log(tmp_path)


def test_doctor_runs_before_the_trainer(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=1"], "--total-timesteps", "1000", PG_MPI_LAUNCHER="mpirun", DOCTOR="1")
    slurm.wait_for_state(job, "COMPLETED", 90)
    text = log(tmp_path)
    assert 0 < text.index("verdict: sane") < text.index("new run in run")


def test_chain_of_starts_gives_the_same_results(slurm, tmp_path):
    """A run that is stopped three times by its time limit equals an uninterrupted run.

    SLURM checks time limits every 30 s, so the number of steps of a start is not known in advance. The chain runs
    first, until its fourth start has completed an update, and then the uninterrupted run with the same number of steps.
    """
    options, chain = ["--nodes=2", "--time=1", "--signal=B:USR1@58"], tmp_path / "chain"
    chain.mkdir()
    job = submit(slurm, chain, options, PG_MPI_LAUNCHER="mpirun", PG_MPI_LEAD="5")
    slurm.wait_for_state(job, "RUNNING", 30)
    for start in (1, 2, 3):
        wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", 90, lambda: log(chain))
        slurm.wait_for_state(job, "RUNNING", 30)
        assert log(chain).count("asked to stop by a signal") == start == len(starts(chain)), log(chain)
    wait_for_updates(chain, len(jobs.metrics(chain)) + 1)
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", 30, lambda: log(chain))
    slurm.run("scancel", job)
    assert not finished(chain)
    run_uninterrupted(slurm, tmp_path / "whole", jobs.metrics(chain)[-1]["env_steps"])
    assert_equal_results(chain, tmp_path / "whole")


def test_preempted_job_gives_the_same_results(slurm, tmp_path):
    (tmp_path / "high").mkdir()
    flags = ["--total-timesteps", "50000"]
    job = submit(slurm, tmp_path, ["--nodes=2"], *flags, PG_MPI_LAUNCHER="mpirun")
    wait_for_updates(tmp_path, 4)
    high = slurm.submit(tmp_path / "high", "-p", "high", "--nodes=4", "--exclusive", "--wrap", "sleep 2")
    slurm.wait_for_state(high, "COMPLETED", 60)
    slurm.wait_for_state(job, "COMPLETED", 120)
    assert finished(tmp_path) and len(starts(tmp_path)) == 2, log(tmp_path)
    assert "asked to stop by a signal" in log(tmp_path)
    run_uninterrupted(slurm, tmp_path / "whole", flags[-1])
    assert_equal_results(tmp_path, tmp_path / "whole")


@pytest.mark.quick
@pytest.mark.parametrize("method", ["requeued", "asked"])
def test_job_stopped_by_an_operator_resumes(slurm, tmp_path, method):
    """Both ways save a checkpoint: ``scontrol requeue`` sends TERM some seconds before KILL."""
    flags = ["--total-timesteps", "40000", "--checkpoint-every", "2"]
    job = submit(slurm, tmp_path, ["--nodes=2"], *flags, PG_MPI_LAUNCHER="srun --mpi=pmix")
    wait_for_updates(tmp_path, 4)
    slurm.run(*(["scontrol", "requeue"] if method == "requeued" else ["scancel", "--batch", "--signal=USR1"]), job)
    slurm.wait_for_state(job, "COMPLETED", 120)
    assert finished(tmp_path) and len(starts(tmp_path)) == 2, log(tmp_path)
    assert "asked to stop by a signal" in log(tmp_path)


def test_cancelled_job_leaves_no_processes(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=2"], PG_MPI_LAUNCHER="mpirun")
    wait_for_updates(tmp_path, 2)
    assert set(ranks_of(job)) == {0, 1}
    slurm.run("scancel", job)
    slurm.wait_for_state(job, "CANCELLED", 30)
    wait_for(lambda: not ranks_of(job), 20, "the ranks to end")
    assert not finished(tmp_path) and "finished" not in log(tmp_path)


@pytest.mark.parametrize("launcher", ["mpirun", "srun --mpi=pmix"])
def test_job_with_a_killed_rank_is_requeued(slurm, tmp_path, launcher):
    flags = ["--total-timesteps", "50000", "--checkpoint-every", "2"]
    job = submit(slurm, tmp_path, ["--nodes=4"], *flags, PG_MPI_LAUNCHER=launcher)
    wait_for_updates(tmp_path, 3)
    kill_rank(job)
    wait_for(lambda: "the next start resumes from" in log(tmp_path), 30, lambda: log(tmp_path))
    assert not finished(tmp_path)
    slurm.wait_for_state(job, "COMPLETED", 120)
    assert finished(tmp_path) and len(starts(tmp_path)) == 2, log(tmp_path)
    assert len(checkpoint_folder.parts_there(jobs.newest(tmp_path)[0])) == 4, "each node writes its part"


@pytest.mark.parametrize("launcher", ["mpirun", "srun --mpi=pmix"])
def test_job_with_a_cut_link_is_requeued(slurm, tmp_path, launcher):
    """One of four nodes is disconnected. The job is requeued within 30 s, and finishes once the node is back."""
    flags = ["--total-timesteps", "60000", "--checkpoint-every", "2"]
    job = submit(slurm, tmp_path, ["--nodes=4"], *flags, PG_MPI_LAUNCHER=launcher)
    wait_for_updates(tmp_path, 5)
    slurm.hosts.cut("n3")
    cut = time.monotonic()
    try:
        wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", 30, lambda: log(tmp_path))
        seconds = time.monotonic() - cut
        assert not finished(tmp_path)
    finally:
        slurm.hosts.reconnect("n3")
    slurm.wait_for_state(job, "COMPLETED", 180)
    assert finished(tmp_path) and len(starts(tmp_path)) == 2, log(tmp_path)
    print(f"the job of a disconnected node was requeued after {seconds:.0f} s")


def test_repeated_starts_without_a_checkpoint_end_the_job(slurm, tmp_path):
    """A trainer that fails before its first checkpoint is not restarted endlessly."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "step-000000000100.npz").write_bytes(b"nothing")
    job = submit(slurm, tmp_path, ["--nodes=1"], PG_MPI_LAUNCHER="/bin/false", PG_MPI_STALLS="2")
    slurm.wait_for_state(job, "FAILED", 90)
    assert slurm.job(job)["ExitCode"] == "1:0"
    assert "2 starts in a row made no progress: stopped for good" in log(tmp_path)


def test_usage_error_is_not_requeued(slurm, tmp_path):
    job = submit(slurm, tmp_path, ["--nodes=2"], "--gama", "0.9")
    slurm.wait_for_state(job, "FAILED", 60)
    assert log(tmp_path).count("did you mean --gamma") == 1
    assert slurm.job(job)["Restarts"] == "0" and slurm.job(job)["ExitCode"] == "2:0"


@pytest.mark.parametrize("kind", ["seeds", "settings"])
def test_array_tasks_resume_separately(slurm, tmp_path, kind):
    """Each task has its own run folder. A task that is stopped by a signal requeues only itself."""
    environment, runs = {}, [f"runs/pong-default-s{task}" for task in (1, 2)]
    if kind == "settings":
        (tmp_path / "list.txt").write_text("--seed 1 --gamma 0.9\n--seed 2 --actions 'NOOP,RIGHT,LEFT'\n")
        environment, runs = {"SETTINGS": "list.txt", "PG_MPI_LAUNCHER": "mpirun"}, ["runs/list-1", "runs/list-2"]
    options = ["--array=1-2", "--nodes=1", "--output=%a.log"]
    array = submit(slurm, tmp_path, options, "--total-timesteps", "30000", script="tune.slurm", **environment)
    for run in runs:
        wait_for_updates(tmp_path, 1, run)
    slurm.run("scancel", "--batch", "--signal=USR1", f"{array}_2")
    slurm.wait_for_state(f"{array}_2", "PENDING", 30)
    slurm.wait_for_state(f"{array}_2", "COMPLETED", 90)
    slurm.wait_for_state(f"{array}_1", "COMPLETED", 90)
    assert [len(starts(tmp_path, run)) for run in runs] == [1, 2]
    assert all(finished(tmp_path, run) for run in runs)
    assert [starts(tmp_path, run)[0]["job"]["SLURM_ARRAY_TASK_ID"] for run in runs] == ["1", "2"]
    if kind == "settings":
        facts = [json.loads((tmp_path / run / "config.json").read_text())["settings"] for run in runs]
        assert (facts[0]["gamma"], facts[1]["actions"]) == (0.9, "NOOP,RIGHT,LEFT")


def test_array_tasks_share_a_study(slurm, tmp_path):
    """Two tasks run four trials. One task is stopped, requeued and resumes its trial."""
    (tmp_path / "space.toml").write_text("[gamma]\nlow = 0.9\nhigh = 0.99\n")
    environment = {"SPACE": "space.toml", "STUDY": "a study.journal", "PG_MPI_LAUNCHER": "mpirun"}
    flags = [*jobs.STEPS, "--checkpoint-every", "4", "--trials", "4", "--budget", "25", "--ranks-per-trial", "1"]
    array = submit(
        slurm, tmp_path, ["--array=1-2", "--nodes=1", "--output=%a.log"], *flags, script="tune.slurm", **environment
    )
    trials = tmp_path / "a study.trials"
    wait_for(lambda: len(list(trials.glob("*/checkpoints/*.npz"))) >= 2, 90, lambda: log(tmp_path, "1.log"))
    slurm.run("scancel", "--batch", "--signal=USR1", f"{array}_2")
    slurm.wait_for_state(f"{array}_2", "PENDING", 30)
    slurm.wait_for_state(f"{array}_1", "COMPLETED", 150)
    slurm.wait_for_state(f"{array}_2", "COMPLETED", 150)
    assert (trials / "DONE").exists() and json.loads((trials / "DONE").read_text())["trials"] == 4
    started = [starts(trials, f"{slot:04d}") for slot in range(4)]
    assert sorted(map(len, started)) == [1, 1, 1, 2], "the stopped trial was not resumed"
    assert {start["job"]["SLURM_ARRAY_TASK_ID"] for start in sum(started, [])} == {"1", "2"}


def test_array_task_without_a_setting_fails(slurm, tmp_path):
    (tmp_path / "list.txt").write_text("--seed 1\n")
    job = submit(slurm, tmp_path, ["--array=2", "--nodes=1"], script="tune.slurm", SETTINGS="list.txt")
    slurm.wait_for_state(f"{job}_2", "FAILED", 60)
    assert "list.txt has no line 2" in log(tmp_path)


def test_benchmark_prints_its_figure_or_why_it_has_none(slurm, tmp_path):
    """All nodes share two cores here, so the doctor may find that they are busy."""
    line = ["--nodes=4", "--ntasks-per-node=1", "--time=10", "--output=job.log", SCRIPTS / "benchmark.slurm"]
    job = slurm.submit(tmp_path, *line, **ENVIRONMENT)
    wait_for(lambda: slurm.job(job)["JobState"] in ("COMPLETED", "FAILED"), 400, lambda: log(tmp_path))
    record = json.loads((tmp_path / f"runs/benchmark-{job}/benchmark.json").read_text())
    assert record["ranks"] == 4 and len(set(record["digests"].values())) == 1 and record["steps_per_s"] > 100
    last = log(tmp_path).splitlines()[-1]
    assert last.startswith("FOM: " if record["valid"] else "INVALID: the doctor finds a fault: busy: "), last


def test_stopped_sweep_resumes(slurm, tmp_path):
    """Points that were measured before the stop are not measured again."""
    flags = ["--seconds", "8", "--warmup", "1", "--repeats", "2", *jobs.STEPS]
    options = {"script": "scaling.slurm", "PG_MPI_LAUNCHER": "srun --mpi=pmix"}
    job = submit(slurm, tmp_path, ["--nodes=2"], *flags, **options)
    first = tmp_path / "runs" / f"sweep-{job}" / "ranks-000001-0.json"
    wait_for(first.exists, 60, lambda: log(tmp_path))
    modified = first.stat().st_mtime_ns
    slurm.run("scancel", "--batch", "--signal=USR1", job)
    wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", 30, lambda: log(tmp_path))
    slurm.wait_for_state(job, "COMPLETED", 120)
    points = sorted(path.name for path in first.parent.glob("ranks-*.json"))
    assert points == [f"ranks-{ranks:06d}-{repeat}.json" for ranks in (1, 2) for repeat in (0, 1)]
    assert first.stat().st_mtime_ns == modified
    assert not list(tmp_path.glob(".measured-*")), "the run folder of a point was not removed"
    assert log(tmp_path).count("steps/s ") == 1
