"""The report: a self-contained page that escapes its input, and refusals of bad input."""

import base64
import os
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from folders import EVALUATION, line, write, write_lines, write_run
from jobs import one_line, printed, refusal, run, without

from pg_mpi import __version__
from pg_mpi.report import figures, page, read
from pg_mpi.report.__main__ import main

NASTY = "<script>alert(\"1\")</script>&amp; 'x' $\\alpha$ Zürich\ud800\x1b[31m\u202e"


def report(cwd, *args, code=0, missing=()):
    """Run ``python -m pg_mpi.report`` without MPI and the libraries ``missing``. Asserts the exit code."""
    return run(without(["mpi4py", *missing], "pg_mpi.report", *args), cwd, code=code)


class Outline(HTMLParser):
    """Tags, attributes and text of a page. Fails on a tag that is closed in the wrong place."""

    VOID = {"meta", "img"}

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
            assert value.startswith(("data:video/mp4;", "data:image/gif;", "data:image/svg+xml;")), value
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
        f"pong {last['return_mean']:+.1f} ± 0.5 0:01:23 2,000 2 160,000 120 not finished",
        "gamma 0.9",
        "command /src/pg_mpi/train.py --preset fast",
        "Open MPI v5.0.11",
        '{"SLURM_JOB_ID": "77"}',
        "acf1e33",
    ):
        assert expected in outline.text, expected
    first, *others = drawn(text)
    assert {"Learning", "Speed", "Phases of pong", "Waiting in pong"} == {first[0], *(title for title, _ in others)}
    assert all('id="line2d_' in svg or 'id="FillBetween' in svg or 'id="patch_' in svg for _, svg in (first, *others))
    assert "Evaluation" not in outline.text and "video" not in outline.tags


def drawn(text):
    """Return [(title, SVG), ...] of the figures of a page."""
    found = re.findall(r'<img alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]+)">', text)
    return [(title, base64.b64decode(content).decode()) for title, content in found]


def test_report_of_several_runs(tmp_path):
    for name, gamma in (("x/a", 0.97), ("y/a", 0.99), ("b", 0.97)):
        write_run(tmp_path / name, settings={"gamma": gamma})
    report(tmp_path, "x/a", "y/a", "b", "x/a")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    outline = check_self_contained(text)
    assert outline.text.startswith("3 runs") and "x/a y/a b" in outline.text
    assert text.count("<mark>") == 3 and "gamma 0.97 0.99 0.97" in outline.text, "only gamma differs"
    runs = read.runs([str(tmp_path / name) for name in ("x/a", "y/a", "b")])
    assert [run.name for run in runs] == [str(tmp_path / "x/a"), str(tmp_path / "y/a"), "b"]


def test_content_of_run_folders_is_escaped(tmp_path):
    malicious = {"settings": {"env_id": NASTY, NASTY: NASTY, "preset": [NASTY]}}
    malicious |= {"start": {name: NASTY for name in ("time", "command", "commit", "versions", "mpi", "places", "job")}}
    places = {"hosts": NASTY, "by_host": [{"host": NASTY}, 3], "by_kind": [{"blas": NASTY}, NASTY]}
    malformed = {"command": [NASTY, 1], "versions": {NASTY: NASTY}, "job": {NASTY: {}}, "places": places}
    folders = [
        write_run(tmp_path / '<b onclick="x">&é $a$ _', **malicious),
        write_run(tmp_path / ("_\x1b\udcff" + 70 * "c"), settings=malicious["settings"], start=malformed),
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
    for _, svg in drawn(text):
        names = {
            tag.rpartition("}")[2] for each in ElementTree.fromstring(svg).iter() for tag in (each.tag, *each.keys())
        }
        assert "path" in names and not names & {"onclick", "script", "b"}


BAD = {
    "no such run": (["nowhere"], "no line of metrics in nowhere/metrics.jsonl: train until the first update"),
    "a file": (["good/metrics.jsonl"], "no line of metrics in good/metrics.jsonl/metrics.jsonl: train"),
    "no metrics": (["empty"], "no line of metrics in empty/metrics.jsonl: train"),
    "the folder of runs": (["."], "no line of metrics in ./metrics.jsonl: train"),
    "no argument": ([], "the following arguments are required: RUN"),
    "unknown flag": (["good", "--jsn"], "unknown argument --jsn (did you mean --json?): see --help"),
    "out": (["good", "--out", "good/config.json"], "--out must end with .html, not 'good/config.json'"),
    "unwritable": (["good", "--out", "none/a.html"], "the report none/a.html cannot be written (No such file or dir"),
    "a folder": (["good", "--out", "folder.html"], "the report folder.html cannot be written (Is a directory): give"),
    "cut": (["cut"], "no line of metrics in cut/metrics.jsonl: train"),
    "foreign": (["foreign"], "no line of metrics in foreign/metrics.jsonl, but 1 damaged: train"),
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
    outline = check_self_contained(page.make(read.runs([str(folder)])))
    assert "no game yet" in outline.text and "Waiting" not in outline.text


def test_other_damaged_files_are_left_out_with_a_note(tmp_path):
    folder = write_run(tmp_path / "run")
    for content in ("[" * 100_000, "{", "[]", "null", "\udcff", '{"phase_s": 3, "ci95": [1], "starts": 1}'):
        names = ("config.json", "ranks.json", "evaluation.json", "DONE")
        for name in names:
            (folder / name).write_bytes(content.encode(errors="surrogateescape"))
        (run,) = read.runs([str(folder)])
        outline = check_self_contained(page.make([run]))
        noted = [] if content.startswith('{"') else [f"{name} is damaged and is left out" for name in names]
        assert run.notes == noted and all(note in outline.text for note in noted) and "Waiting" not in outline.text


def test_report_shows_the_last_evaluation_and_its_video(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", updates=50)
    write(folder / "evaluation.json", EVALUATION | {"video": "game.mp4"})
    runs = read.runs([str(folder)])
    assert "step-000000160000.npz 3 18.5 17.25 19.5 19 false 0.25 0" in check_self_contained(page.make(runs)).text
    (folder / "game.mp4").write_bytes(b"film")
    assert 'src="data:video/mp4;base64,ZmlsbQ=="' in page.make(runs)
    monkeypatch.setattr(page, "MOST_VIDEO", 3)
    outline = check_self_contained(page.make(runs))
    assert "video" not in outline.tags and f"too large for the page: {folder / 'game.mp4'}" in outline.text
    (folder / "game.mp4").unlink()
    (folder / "game.mp4").symlink_to("/etc/hostname")
    assert "hostname" not in page.make(runs) and "<video" not in page.make(runs)
    write(folder / "evaluation.json", EVALUATION | {"video": "report.html"})
    (folder / "report.html").write_text("<script>")
    assert "<video" not in page.make(read.runs([str(folder)])), "a file that is no video"


def test_page_of_a_long_run_on_many_ranks_is_small(tmp_path):
    folder = write_run(tmp_path / "run", updates=20_000, ranks=4096, waits=np.linspace(1, 9, 101).tolist())
    (run,) = read.runs([str(folder)])
    assert len(page.make([run] * 6)) < 2_000_000


def test_phase_shares_add_up_and_means_are_over_the_time(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [line(n, seconds=float(seconds)) for n, seconds in enumerate([1, 1, 2, 4, 2, 1], start=1)]
    for each in lines:
        each |= {"wall_s": float(each["update"]), "sps": 100.0 * each["update"]}
    write_lines(folder, lines)
    (run,) = read.runs([str(folder)])
    _, shares = figures.means(run, list(figures.PHASES), per_second=True)
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    np.testing.assert_allclose(shares[0], 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "BINS", 2)
        minutes, (sps,) = figures.means(run, ["sps"])
    np.testing.assert_allclose(minutes, [3 / 60, 6 / 60])
    np.testing.assert_allclose(sps, [(100 + 200 + 2 * 300) / 4, (4 * 400 + 2 * 500 + 600) / 7])


def test_waiting_of_an_earlier_start_is_left_out(tmp_path):
    folder = write_run(tmp_path / "run")  # its ranks.json is of start 0
    assert read.runs([str(folder)])[0].waits.tolist() == [0.1, 0.2]
    write_lines(folder, [line(1), line(2, restarts=1)])
    assert not len(read.runs([str(folder)])[0].waits)
    write(folder / "ranks.json", {"start": [], "phase_s": {"wait": [1.0]}})
    assert not len(read.runs([str(folder)])[0].waits)


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
