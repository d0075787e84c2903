"""The report: a self-contained page that escapes its input, and refusals of bad input."""

import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from folders import EVALUATION, line, write, write_lines, write_run
from jobs import one_line, printed, refusal, run, without

from pg_mpi import __version__
from pg_mpi.config.settings import TrainConfig
from pg_mpi.report import captions, figures, page, panels, read, run_files, series, tables, theme
from pg_mpi.report.__main__ import main

NASTY = "<script>alert(\"1\")</script>&amp; 'x' $\\alpha$ Zürich\ud800\x1b[31m\u202e"


def report(cwd, *args, code=0, missing=()):
    """Run ``python -m pg_mpi.report`` without MPI and the libraries ``missing``. Asserts the exit code."""
    return run(without(["mpi4py", *missing], "pg_mpi.report", *args), cwd, code=code)


class Outline(HTMLParser):
    """Tags, attributes and text of a page. Fails on a tag that is closed in the wrong place."""

    VOID = {"meta", "img", "path", "use", "br"}

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self._open = [], [], [], []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def check_self_contained(text):
    """Check that a page loads nothing and runs no code. Returns its ``Outline``."""
    outline = Outline(text)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form", "a"} & set(outline.tags)
    for name, value in outline.attributes:
        assert not name.startswith("on"), name
        if name in ("src", "href", "xlink:href", "srcset", "poster", "data", "action"):
            assert value.startswith(("data:video/mp4;", "data:image/gif;", "#")), value
        if name == "style":
            assert not re.search(r"url\((?!#)", value)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "url(" not in style and "@import" not in style
    return outline


def test_report_of_one_run(tmp_path):
    folder = write_run(tmp_path / "runs" / "pong", ranks=2, waits=[8.0, 2.0], settings={"gamma": 0.9})
    result = report(tmp_path, "runs/pong", "--json")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert printed(result) == {"path": "runs/pong/report.html", "bytes": len(text.encode()), "runs": ["runs/pong"]}
    assert result.stderr == "" and not list(folder.glob("*.tmp"))
    outline = check_self_contained(text)
    last = line(40)
    for expected in (
        f"{captions.signed(last['return_mean'])} ± 0.5",
        "0:01:23 trained, not finished",
        "2,000 steps/s, 1,000 on each of 2 ranks",
        "40% play, 20% learning, 10% exchange, 10% waiting",
        "Rank 0 waits most, 10.0% of the time; rank 1 least, 2.5%",
        f"gamma 0.9 {TrainConfig.gamma} discount per agent step",
        "Open MPI v5.0.11",
        "SLURM_JOB_ID 77",
        "acf1e33",
    ):
        assert expected in outline.text, expected
    assert outline.tags.count("svg") == 5, "not each figure, and the curve in two widths"
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert "var(--run0)" in drawn and "var(--muted)" in drawn
    assert set(re.findall(r"#[0-9a-f]{6}\b", drawn)) <= {*theme.PHASES.values()}, "a colour that ignores the theme"
    assert "http" not in text.replace("http-equiv", "")
    assert "Evaluation" not in outline.text and "video" not in outline.tags


def test_report_of_several_runs(tmp_path):
    for name, gamma in (("x/a", 0.97), ("y/a", 0.99), ("b", 0.97)):
        write_run(tmp_path / name, settings={"gamma": gamma})
    report(tmp_path, "x/a", "y/a", "b", "x/a")
    outline = check_self_contained((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert outline.text.startswith("3 runs") and "x/a y/a b" in outline.text
    assert "gamma ≠ 0.97 0.99 0.97" in outline.text and "ranks ≠" not in outline.text
    runs = read.runs([str(tmp_path / name) for name in ("x/a", "y/a", "b")])
    assert [run.name for run in runs] == [str(tmp_path / "x/a"), str(tmp_path / "y/a"), "b"]
    few, everything = tables.settings(runs)
    assert "gamma" in few and "env_id" not in few and "env_id" in everything


def test_runs_beyond_the_number_of_colours_are_dashed(tmp_path):
    runs = read.runs([str(write_run(tmp_path / f"run{number}", updates=3)) for number in range(7)])
    for draw in (figures.learning, figures.speed):
        assert str(draw(runs, "runs")).count("stroke-dasharray") >= 2  # the seventh line, on wide and narrow screens


def test_content_of_run_folders_is_escaped(tmp_path):
    malicious = {"settings": {"env_id": NASTY, NASTY: NASTY, "preset": [NASTY]}}
    malicious |= {"start": {name: NASTY for name in ("time", "command", "commit", "versions", "mpi", "places", "job")}}
    places = {"hosts": NASTY, "by_host": [{"host": NASTY}, 3], "by_kind": [{"blas": NASTY}, NASTY]}
    malformed = {"command": [NASTY, 1], "versions": {NASTY: NASTY}, "job": {NASTY: {}}, "places": places}
    folders = [
        write_run(tmp_path / '<b onclick="x">&é $a$ _', **malicious),
        write_run(tmp_path / "_c", settings=malicious["settings"], start=malformed),
    ]
    write(folders[0] / "evaluation.json", EVALUATION | {"checkpoint": NASTY, "video": "../secret.mp4", "seed": [NASTY]})
    write(folders[0] / "DONE", {"reason": NASTY})
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    for runs in (folders[:1], folders):
        text = page.make(read.runs([str(folder) for folder in runs]))
        outline = check_self_contained(text.encode("utf-8").decode())
        assert "onclick" not in dict(outline.attributes) and "<script" not in text
        assert '<b onclick="x">&é $a$ _' in outline.text and "<script>alert(\"1\")</script>&amp; 'x'" in outline.text
        assert "\x1b" not in text and "\u202e" not in text and "c2VjcmV0" not in text


BAD = {
    "no such run": (["nowhere"], "the run folder nowhere does not exist: give the folder that the trainer named"),
    "a file": (["good/metrics.jsonl"], "the run folder good/metrics.jsonl is a file: give"),
    "no metrics": (["empty"], "empty holds no metrics.jsonl: give a run folder, such as"),
    "the folder of runs": (["."], ". holds no metrics.jsonl (did you mean ./cut?): give"),
    "no argument": ([], "the following arguments are required: RUN"),
    "unknown flag": (["good", "--jsn"], "unknown argument --jsn (did you mean --json?): see --help"),
    "out": (["good", "--out", "good/config.json"], "--out must end with .html, not 'good/config.json'"),
    "unwritable": (["good", "--out", "none/a.html"], "the report none/a.html cannot be written (No such file or dir"),
    "a folder": (["good", "--out", "folder.html"], "the report folder.html cannot be written (Is a directory): give"),
    "cut": (["cut"], "cut/metrics.jsonl has no whole line yet: wait until the first update is over"),
    "foreign": (["foreign"], "foreign/metrics.jsonl is damaged or of another version of pg_mpi (none of its lines is"),
}


def test_bad_input_is_refused_with_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "metrics.jsonl").write_text('{"update": 1, "env_s')
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "metrics.jsonl").write_text('{"loss": 1}\n')
    before = sorted(os.listdir(tmp_path))
    for case, (args, expected) in BAD.items():
        assert expected in refusal(main, *args), case
    assert sorted(os.listdir(tmp_path)) == before and not (tmp_path / "good" / "report.html").exists()


@pytest.mark.parametrize("updates", [1, 2])
def test_report_of_a_run_without_finished_games(tmp_path, updates):
    folder = tmp_path / "run"
    folder.mkdir()
    write_lines(folder, [line(n) | {"return_mean": None, "return_ci95": None} for n in range(1, updates + 1)])
    (run,) = read.runs([str(folder)])
    outline = check_self_contained(page.make([run]))
    assert "No game was finished yet" in outline.text and "no game yet" in outline.text
    assert "config.json is missing" in outline.text
    assert "ranks.json, which the trainer writes at each checkpoint, is not in the run folder" in outline.text


def test_other_damaged_files_are_left_out_with_a_note(tmp_path):
    folder = write_run(tmp_path / "run")
    deep = "[" * 100_000, '{"a":' * 400 + "1" + "}" * 400
    for content in (*deep, "{", "[]", "null", "\udcff", '{"phase_s": 3, "ci95": [1]}'):
        for name in ("config.json", "ranks.json", "evaluation.json", "DONE"):
            (folder / name).write_bytes(content.encode(errors="surrogateescape"))
        (run,) = read.runs([str(folder)])
        assert any("ranks.json" in note for note in run.notes) and any("evaluation.json" in note for note in run.notes)
    outline = check_self_contained(page.make([run]))
    assert all(note in outline.text for note in run.notes) and "Waiting by rank is left out" in outline.text


def test_report_shows_the_last_evaluation_and_its_video(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", updates=50)
    write(folder / "evaluation.json", EVALUATION | {"video": "game.mp4"})
    (run,) = read.runs([str(folder)])
    assert run.notes == ["the video of the last evaluation is gone: evaluate again with --video"]
    (folder / "game.mp4").write_bytes(b"film")
    (run,) = read.runs([str(folder)])
    text = page.make([run])
    assert "Evaluation: +18.50 [+17.25, +19.50] over 3 games" in check_self_contained(text).text
    assert 'src="data:video/mp4;base64,ZmlsbQ=="' in text
    assert series.evaluated(run) == (3.0 + 2.0 * 40, 18.5, 17.25, 19.5), "not at the time of its checkpoint"
    monkeypatch.setattr(panels, "MOST_VIDEO", 4)
    outline = check_self_contained(page.make([run]))
    assert "video" not in outline.tags and f"too large for the page: {folder / 'game.mp4'}" in outline.text
    (folder / "game.mp4").unlink()
    (folder / "game.mp4").symlink_to("/etc/hostname")
    assert read.runs([str(folder)])[0].beside.video is None


def test_only_evaluations_of_atari_games_have_sticky_actions():
    pong, cartpole = (captions.protocol(EVALUATION | {"env_id": name}) for name in ("ALE/Pong-v5", "CartPole-v1"))
    assert "sticky actions" in pong and "sticky actions" not in cartpole


def test_evaluation_of_a_checkpoint_with_more_digits_is_drawn(tmp_path):
    folder = write_run(tmp_path / "run", updates=1)
    write_lines(folder, [line(n) | {"env_steps": n * 10**12} for n in range(1, 4)])
    write(folder / "evaluation.json", EVALUATION | {"checkpoint": f"step-{2 * 10**12}.npz"})
    (run,) = read.runs([str(folder)])
    assert series.evaluated(run)[0] == line(2)["wall_s"]


def test_page_of_a_long_run_on_many_ranks_is_small(tmp_path):
    folder = write_run(tmp_path / "run", updates=20_000, ranks=4096, waits=np.linspace(1, 9, 101).tolist())
    (run,) = read.runs([str(folder)])
    assert len(series.learning(run)[0]) <= series.POINTS and len(series.speed(run)[0]) <= series.BINS
    assert len(page.make([run] * 6)) < 2_000_000


def test_phase_shares_add_up_and_speed_is_steps_per_second(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [line(n, seconds=float(seconds)) for n, seconds in enumerate([1, 1, 2, 4, 2, 1, 1, 1, 3], start=1)]
    wall = 0.0
    for each in lines:
        wall += 1 / each["updates_per_s"]
        each |= {"wall_s": wall, "sps": 100.0 * each["update"]}
        each["phase_s"] |= {"reset": 0.0, "record": 0.001}
    write_lines(folder, lines)
    (run,) = read.runs([str(folder)])
    when, shares = series.shares(run)
    assert "reset" not in shares and "record" not in shares, "phases too small to be visible"
    np.testing.assert_allclose(sum(shares.values()), 1)
    np.testing.assert_allclose(shares["emulator"], 0.1)
    assert np.all(np.diff(when) > 0)
    steps = sum(each["sps"] / each["updates_per_s"] for each in lines)
    assert series.mean_speed(run) == pytest.approx(steps / wall)
    _, sps = series.speed(run)
    assert sps.min() >= 100 and sps.max() <= 900 and len(sps) == 3


def test_waiting_covers_the_last_start_up_to_its_checkpoint(tmp_path):
    folder = write_run(tmp_path / "run", updates=1)
    write_lines(folder, [line(n, restarts=n // 6) for n in range(1, 11)])
    write(folder / "ranks.json", {"start": 1, "update": 9, "phase_s": {"wait": [0.8, 4.0]}, "slowest": [{"rank": 0}]})
    (run,) = read.runs([str(folder)])
    np.testing.assert_allclose(series.waits(run), [0.1, 0.5])  # of updates 6 to 9, two seconds each
    write(folder / "ranks.json", {"start": 7, "update": 9, "phase_s": {"wait": [0.8, 4.0]}, "slowest": [{"rank": 0}]})
    assert series.waits(read.runs([str(folder)])[0]) is None


def test_missing_matplotlib_is_refused_with_a_remedy(tmp_path):
    write_run(tmp_path / "run")
    result = report(tmp_path, "run", code=2, missing=["matplotlib"])
    assert "pip install 'pg_mpi[plot]'" in one_line(result)


def test_help_needs_neither_numpy_nor_matplotlib(tmp_path):
    result = report(tmp_path, "--help", missing=["numpy", "matplotlib"])
    assert "--out FILE" in result.stdout and "HTML file" in result.stdout


def test_version_is_printed_and_a_wrong_flag_before_help_is_refused_with_one_line(tmp_path):
    assert report(tmp_path, "--version").stdout == f"pg_mpi {__version__}\n"
    assert "--out: expected one argument" in one_line(report(tmp_path, "--out", "--help", code=2))


def test_video_of_an_unknown_type_is_ignored(tmp_path):
    notes = []
    (tmp_path / "page.html").write_text("<script>")
    assert run_files._video(str(tmp_path), {"video": "page.html"}, notes) is None and notes == []
