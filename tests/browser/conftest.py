"""One browser and one trained run for all tests of this folder."""

import pytest
from chrome import Chrome, find
from jobs import STEPS, command, run, train


@pytest.fixture(scope="session")
def chrome():
    if not find():
        pytest.skip("no Chromium: make test-browser installs it")
    with Chrome() as browser:
        yield browser


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A folder with a run of two ranks in ``run``, with an evaluation and its video."""
    folder = tmp_path_factory.mktemp("trained")
    train(2, folder, *STEPS, "--max-frames", 1200, "--total-timesteps", 6000)
    flags = ["--games", 4, "--video", "run/game.mp4"]
    run(command(2, "pg_mpi.evaluate", "run", *flags), folder, code=0)
    return folder
