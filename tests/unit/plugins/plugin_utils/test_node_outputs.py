"""Tests of fetching files of nodes in pieces, with limits on size and time."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils import node_outputs
from ansible_collections.busbar.cluster.plugins.plugin_utils.node_outputs import Bounds, Wanted, fetch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USER = "nobody"
MIB = 1 << 20
TOO_LONG = "too long"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another")


class Here:
    """This machine as a node."""

    def run(self, script: str) -> tuple[int, bytes, bytes]:
        """Run a script."""
        done = subprocess.run(["/bin/sh"], input=script.encode(), capture_output=True, check=False)
        return done.returncode, b"Welcome!\n" + done.stdout, done.stderr


class Says:
    """A node that gives arbitrary answers."""

    def __init__(self, answer: Callable[[], bytes]) -> None:
        """Store the answer."""
        self.answer = answer

    def run(self, script: str) -> tuple[int, bytes, bytes]:
        """Return the answer."""
        assert script
        return 0, self.answer(), b""


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Return a directory of the user on a node."""
    # pytest's directories are private; with xdist there are three.
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    place = tmp_path / "there"
    place.mkdir()
    place.chmod(0o777)
    return place


def fetched(there: Path, name: str, node: object = None, most: int = 64 * MIB, seconds: float = 60) -> tuple[Path, str]:
    target = there.parent / name
    wanted = [Wanted("gpu1", f"{there}/{name}", target)]
    found = fetch(wanted, lambda _host: node or Here(), USER, Bounds(most, seconds), TOO_LONG)  # type: ignore[arg-type, return-value]
    return target, found[target]


@pytest.mark.parametrize("size", [0, 1, node_outputs.PIECE - 1, node_outputs.PIECE, 2 * node_outputs.PIECE + 7])
def test_file_is_fetched_completely_and_removed_on_the_node(there: Path, size: int) -> None:
    data = os.urandom(size)
    (there / "x.out").write_bytes(data)
    target, problem = fetched(there, "x.out")
    assert problem == ""
    assert target.read_bytes() == data
    assert list(there.iterdir()) == []


class ReadOnly(Here):
    """A node that serves files and is unreachable when they are removed."""

    def run(self, script: str) -> tuple[int, bytes, bytes]:
        """Run a script unless it removes a file."""
        if script.startswith("rm "):
            message = "Connection closed"
            raise OSError(message)
        return super().run(script)


def test_complete_file_is_accepted_even_if_it_cannot_be_removed(there: Path) -> None:
    (there / "x.out").write_bytes(b"table")
    target, problem = fetched(there, "x.out", ReadOnly())
    assert (problem, target.read_bytes()) == ("", b"table")


def test_too_long_file_is_truncated_at_the_limit(there: Path) -> None:
    (there / "x.out").write_bytes(b"x" * (3 * MIB + 1))
    target, problem = fetched(there, "x.out", most=3 * MIB)
    assert (problem, target.stat().st_size) == (TOO_LONG, 3 * MIB)


def test_file_unreadable_for_the_user_is_not_fetched(there: Path) -> None:
    secret = there.parent / "secret"
    secret.write_text("secret", encoding="utf-8")
    secret.chmod(0o600)
    (there / "x.out").symlink_to(secret)
    target, problem = fetched(there, "x.out")
    assert problem != ""
    assert not target.exists()
    assert secret.read_text(encoding="utf-8") == "secret"


@pytest.mark.parametrize("name", ["fifo", "zero", "none"])
def test_path_that_is_not_a_regular_file_is_refused(there: Path, name: str) -> None:
    if name == "fifo":
        os.mkfifo(there / name)
    elif name == "zero":
        (there / name).symlink_to("/dev/zero")
    began = time.monotonic()
    target, problem = fetched(there, name)
    assert problem == "it could not be read (exit code 1)"
    assert not target.exists()
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "it could not be read (exit code 0)"),
        (b"busbar-output 12", "it could not be read (exit code 0)"),
        (b"busbar-output -1\nx", "it sent an unexpected answer"),
        (b"busbar-output 12\nabc", "the transfer was incomplete"),
        (b"busbar-output 2\n" + b"x" * (node_outputs.PIECE + 1), "it sent an unexpected answer"),
    ],
)
def test_invalid_answer_of_a_node_is_refused(there: Path, answer: bytes, words: str) -> None:
    target, problem = fetched(there, "x.out", Says(lambda: answer))
    assert problem == words
    assert not target.exists()


def test_incomplete_transfer_is_reported_and_complete_file_not_fetched_again(there: Path) -> None:
    answers = [b"busbar-output 9000000\n" + b"x" * node_outputs.PIECE, b"busbar-output 9000000\n"]
    target, problem = fetched(there, "x.out", Says(iter(answers).__next__))
    assert problem == "the transfer was incomplete"
    assert not target.exists()
    assert (there.parent / "x.out.part").stat().st_size == node_outputs.PIECE
    (there / "x.out").write_bytes(b"y")
    assert fetched(there, "x.out") == (target, "")
    assert not (there.parent / "x.out.part").exists()
    assert fetched(there, "x.out") == (target, "")
    assert target.read_bytes() == b"y"


def test_endless_file_is_truncated_at_the_limit(there: Path) -> None:
    piece = f"busbar-output {10**15}\n".encode() + b"x" * node_outputs.PIECE
    target, problem = fetched(there, "x.out", Says(lambda: piece), most=3 * node_outputs.PIECE)
    assert (problem, target.stat().st_size) == (TOO_LONG, 3 * node_outputs.PIECE)


def test_endless_answer_does_not_exhaust_the_memory(there: Path) -> None:
    def flood() -> bytes:
        parts = []
        while True:
            parts.append(b"x" * (16 * MIB))

    _target, problem = fetched(there, "x.out", Says(flood))
    assert problem == "it sent more data than requested"


def test_silent_node_times_out(there: Path) -> None:
    def silence() -> bytes:
        time.sleep(100)
        return b""

    (there / "y.out").write_bytes(b"y")
    targets = [there.parent / name for name in ("x.out", "y.out")]
    wanted = [Wanted(host, f"{there}/{target.name}", target) for host, target in zip("ab", targets, strict=True)]
    nodes = {"a": Says(silence), "b": Here()}
    began = time.monotonic()
    found = fetch(wanted, nodes.__getitem__, USER, Bounds(MIB, 3), TOO_LONG)  # type: ignore[arg-type]
    assert time.monotonic() - began < 20
    assert found == {targets[0]: "it timed out", targets[1]: ""}
