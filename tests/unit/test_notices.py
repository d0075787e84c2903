"""The notices of Open MPI that the launcher leaves out of its standard error."""

import os

from pg_mpi.mpi.launch.notices import StreamCopy, without_notices


def test_notices_of_explained_codes_are_left_out() -> None:
    rule = b"-" * 74 + b"\n"
    head = b"prterun detected that one or more processes exited with non-zero status,\nthus causing\n\n"
    explained, other = (rule + head + b"   Exit code:    %d\n" % code + rule for code in (75, 139))

    def passed(text: bytes) -> bytes:
        return b"".join(without_notices(text.splitlines(keepends=True)))

    assert passed(b"a\n" + explained + b"b\n" + explained) == b"a\nb\n"
    stray = b"[host:1] PMIX ERROR: PMIX_ERR_UNREACH in file pmix_server.c at line 3146\n"
    assert passed(explained.replace(rule, rule + stray, 1) + b"a\n") == b"a\n"
    for kept in (
        other,
        rule + b"An unrecognized option\n" + rule,
        rule,
        rule + rule + b"a\n",
        rule + head,
        rule + stray + b"a\n",
        other.replace(rule, rule + stray, 1),
        b"no newline",
    ):
        assert passed(kept) == kept and passed(kept + explained).startswith(kept)


def test_lines_are_read_on_after_their_reader_has_left() -> None:
    """Else mpirun would wait for room in the pipe."""
    (end, pipe), (lines, closed) = os.pipe(), os.pipe()
    os.close(lines)
    with open(end, "rb") as source, open(closed, "wb", buffering=0) as target:
        os.write(pipe, 3 * (b"x" * 20_000 + b"\n"))
        os.close(pipe)
        StreamCopy(source, target).join(10)
        assert source.read() == b""
