"""Wrong arguments of the commands in ``scaling`` are refused with one line, before anything is written."""

import sys

import pytest
from jobs import one_line, refusal, run

from scaling import sweep
from scaling.measure import cost
from scaling.measure.ceiling import __main__ as ceiling
from scaling.model import fit
from scaling.model.predict import __main__ as predict
from scaling.model.virtual import __main__ as virtual
from scaling.score import games

CASES = [
    (ceiling, ["--seconds", "0"], "--seconds must be a finite number above 0"),
    (ceiling, ["--run-dir", "here"], "--run-dir does not apply here"),
    (ceiling, ["--reproducible"], "--reproducible does not apply here"),
    (cost, [], "the following arguments are required: --of"),
    (cost, ["--of=--trase"], "unknown argument --trase (did you mean --trace?)"),
    (cost, ["--of=--trace", "--repeats", "1"], "--repeats must be a whole number of at least 2"),
    (cost, ["--of=--run-dir x"], "--run-dir does not apply here"),
    (cost, ['--of="'], "--of must be flags as in a shell (No closing quotation)"),
    (fit, ["nowhere"], "no file or folder nowhere"),
    (fit, ["1:440,two:880"], "POINTS must be ranks:steps/s pairs"),
    (fit, ["0:440"], "POINTS must be ranks:steps/s pairs"),
    (fit, ["1:440,1e200:850"], "a whole number of at least 1 and at most 1,000,000,000"),
    (fit, ["1:1e-300,2:1e300"], "a finite number at least 1e-06 and at most 1e+15"),
    (fit, ["1:440,2:880", "--target", "-1"], "--target must be a finite number above 0"),
    (fit, ["1:440", "--tagret", "1"], "unknown argument --tagret (did you mean --target?)"),
    (fit, ["1:440,1:450"], "one number of ranks has no law: give at least two"),
    (games, ["--games", "ALE/Pung-v5"], "unknown game 'ALE/Pung-v5' (did you mean ALE/Pong-v5?)"),
    (predict, [], "one of the arguments --run --sweep is required"),
    (predict, ["--run", ".", "--ranks", "0"], "--ranks must be a whole number of at least 1"),
    (predict, ["--sweep", "."], ". contains no run on 1 ranks"),
    (predict, ["--run", "nowhere"], "no line of metrics in nowhere/metrics.jsonl"),
    (predict, ["--run", ".", "--network", "ethernet-1"], "--network must be one of memory"),
    (predict, ["--run", ".", "--network", "doctor=x"], "x is not a report of the doctor"),
    (
        sweep,
        ["--ranks", "0,1"],
        "--ranks must be a whole number of at least 1 and at most 1,000,000, or several such as 1,2,4",
    ),
    (sweep, ["--mode", "strnog"], "--mode must be one of weak, strong (did you mean strong?)"),
    (sweep, ["--ranks", "2,3", "--mode", "strong"], "evenly among 2 ranks: remove it from --ranks"),
    (sweep, ["--hosts", "nowhere"], "the host file nowhere cannot be read"),
    (sweep, ["--max-walltime", "5"], "--max-walltime does not apply here"),
    (sweep, ["--hiden", "5"], "unknown argument --hiden (did you mean --hidden?)"),
    (sweep, ["--repeatz", "5"], "unknown argument --repeatz (did you mean --repeats?)"),
    (sweep, ["--preset", "slow"], "no preset or file 'slow'"),
    (virtual, ["--ranks", "0"], "--ranks must be a whole number of at least 1"),
    (virtual, ["--network", "token-ring"], "--network must be one of memory"),
    (virtual, ["--run-dir", "x"], "--run-dir does not apply here"),
]


@pytest.mark.parametrize("command, args, message", CASES)
def test_wrong_arguments_are_refused_before_writing(tmp_path, monkeypatch, command, args, message):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(command.main, *args) and not list(tmp_path.iterdir())


def test_full_disk_has_its_exit_code(tmp_path):
    program = "from scaling import cli; cli.run(lambda argv: open('/dev/full', 'w').write('x' * 99_999))"
    result = run([sys.executable, "-c", program], tmp_path, code=75)
    assert "No space left on device" in one_line(result)


def test_preset_file_cannot_contain_what_is_refused_as_a_flag(tmp_path):
    preset = tmp_path / "preset.json"
    preset.write_text('{"elastic": true}')
    assert "--elastic does not apply here" in refusal(virtual.main, "--preset", str(preset))
