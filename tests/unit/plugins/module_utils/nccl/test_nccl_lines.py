"""The fast ways to lines of a log: they give what the slow ones give."""

from __future__ import annotations

import io
from itertools import product

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.nccl.output import MAX_LINE, bounded_lines
from ansible_collections.busbar.cluster.plugins.module_utils.nccl.text import LIBRARY_LINE, is_library_line

PREFIXES = ["", "[1,12]<stdout>:", " 12: ", "pod | ", "[", "[1] NCCL x"]
THREADS = ["gpu1:12:13 [0]", "1gpu:12:13 [0]", "gpu1:12 [0]", "] NCCL INFO gpu1:1:2 [0]"]
LEVELS = [" NCCL INFO", " NCCL WARN", " NCCL TRACE", " NCCL TRAC", " NCCL VERSION", "NCCL INFO"]
RESTS = ["", " x", " <stdout>", " \r", " \x1b[1m", " gpu1:1:2 [0] NCCL INFO x"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "a\n\nb",
        "a\x0b\x0c\u2028b\n",
        *("x" * length + end for length in range(MAX_LINE - 1, MAX_LINE + 2) for end in ("", "\n", "\ny\n")),
        "x" * (3 * MAX_LINE + 5) + "\n" + "y" * (2 * MAX_LINE) + "\n",
        "\n".join("z" * length for length in range(600)),
    ],
    ids=len,
)
def test_lines_are_those_of_readline(text: str) -> None:
    slow = io.StringIO(text, newline="\n")
    assert list(bounded_lines(io.StringIO(text, newline="\n"))) == list(iter(lambda: slow.readline(MAX_LINE), ""))


def test_a_line_of_the_library_is_what_its_pattern_says() -> None:
    found = set()
    for parts in product(PREFIXES, THREADS, LEVELS, RESTS):
        line = "".join(parts)
        match = LIBRARY_LINE.match(line)
        strange = "\x1b" in line or "\r" in line
        wanted = match is not None and not strange and "<std" not in line[match.end() :]
        assert is_library_line(line) == wanted, line
        found.add(wanted)
    assert found == {True, False}
