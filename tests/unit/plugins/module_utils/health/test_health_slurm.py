"""Tests of which nodes the health check drains, resumes or leaves unchanged, and how many at once."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.health.drain_policy import (
    Record,
    allowed_drains,
    drain_reason,
    drained_before,
    node_record,
    records,
    step,
)
from ansible_collections.busbar.cluster.plugins.module_utils.health.drain_resume import drain_or_resume
from ansible_collections.busbar.cluster.plugins.module_utils.health.finding import ISOLATE, RESET, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

DECLARED: dict[str, Any] = {"node": "gpu1", "resume": True, "drain_percent": 10}
LOST = Finding("gpu", RESET, "GPU 1 is lost")
TIME = "2026-11-21T06:44:0"


def test_drain_reason_is_one_short_line() -> None:
    assert drain_reason(['GPU 1 "x"\nis lost']) == "busbar health: GPU 1 'x' is lost"
    assert drain_reason(list("abcde")) == "busbar health: a; b; c; and 2 more"
    long = drain_reason(["x" * 900])
    assert (len(long), long[-3:]) == (400, "...")


def shown(state: str, reason: str = "") -> str:
    tail = f"   Reason={reason} [root@2026-11-21T06:44:01]\n" if reason else ""
    return f"NodeName=gpu1 Arch=x86_64\n   OS=Linux\n   State={state} ThreadsPerCore=1 Owner=N/A\n{tail}"


def test_scontrol_output_of_a_node_is_parsed() -> None:
    assert node_record(shown("IDLE")) == Record(frozenset({"IDLE"}), "", "gpu1")
    told = node_record(shown("MIXED*+DRAIN", "busbar health: GPU 1 [of 2] is lost"))
    why, when = "busbar health: GPU 1 [of 2] is lost", "2026-11-21T06:44:01"
    assert told == Record(frozenset({"MIXED", "DRAIN"}), why, "gpu1", when)
    with pytest.raises(ValueError, match="Node gpu9 not found"):
        node_record("Node gpu9 not found\n")


OURS, ADMINS = "busbar health: GPU 1 is lost", "new memory on Monday"


@pytest.mark.parametrize(
    ("problems", "state", "reason", "resume", "known", "expected"),
    [
        (["x"], "IDLE", "", False, False, "drain"),
        (["x"], "ALLOCATED", "", True, False, "drain"),
        (["x"], "IDLE*", ADMINS, False, False, "drain"),
        (["x"], "IDLE", "", True, True, "given_back"),
        ([], "IDLE", "", True, True, "given_back"),
        (["x"], "MIXED+DRAIN", OURS, False, True, "keep"),
        (["x"], "IDLE+DRAIN", ADMINS, True, True, "leave"),
        (["x"], "DOWN", "Not responding", False, False, "leave"),
        ([], "IDLE+DRAIN", OURS, True, True, "resume"),
        ([], "DOWN+DRAIN", OURS, True, True, "resume"),
        ([], "IDLE+DRAIN", OURS, False, True, "keep"),
        ([], "IDLE+DRAIN", ADMINS, True, True, "leave"),
        ([], "IDLE+DRAIN", f"see {OURS}", True, True, "leave"),
    ],
)
def test_step_depends_on_problems_state_and_reason(  # noqa: PLR0913, PLR0917 - a table
    problems: list[str],
    state: str,
    reason: str,
    resume: bool,  # noqa: FBT001
    known: bool,  # noqa: FBT001
    expected: str,
) -> None:
    assert step(problems, node_record(shown(state, reason)), resume=resume, known=known) == expected


@dataclasses.dataclass
class Slurm:
    """Fake nodes by name, each with state, reason and the time of the reason; records the commands."""

    nodes: dict[str, tuple[str, str, str]]
    asked: list[str] = dataclasses.field(default_factory=list)
    meanwhile: Callable[[Slurm], None] = lambda _: None

    def __call__(self, words: Sequence[str]) -> str:
        """Answer like scontrol and apply the updates."""
        self.asked.append(" ".join(words))
        if words[0] == "update":
            name = words[1].partition("=")[2]
            reason = words[3].partition("=")[2] if words[2] == "State=DRAIN" else ""
            self.nodes[name] = ("IDLE+DRAIN" if reason else "IDLE", reason, f"{TIME}5")
            self.meanwhile(self)
        return "\n".join(
            f"NodeName={name} State={state} Partitions=x {f'Reason={reason} [root@{since}]' if reason else ''}"
            for name, (state, reason, since) in self.nodes.items()
            if words[-1] in {"nodes", name}
        )

    @property
    def updates(self) -> list[str]:
        """Return the updates that scontrol got."""
        return [words for words in self.asked if words.startswith("update")]


def cluster(count: int, drained: int = 0) -> Slurm:
    """Return a cluster in which the health check drained the last nodes earlier."""
    return Slurm(
        {
            f"gpu{number}": ("IDLE+DRAIN", "busbar health: x", f"{TIME}1")
            if number > count - drained
            else ("IDLE", "", "")
            for number in range(1, count + 1)
        }
    )


def settled(slurm: Slurm, note: Path, *findings: Finding, passes: int = 0, **declared: object) -> str:
    """Return what is done to gpu1, without a waiting time."""
    return drain_or_resume(findings, DECLARED | declared, slurm, note, passes, wait=lambda _: None)


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "notes" / "drained"


def test_healthy_node_causes_no_slurm_call(note: Path) -> None:
    slurm = cluster(4)
    assert settled(slurm, note, passes=9) == "nothing"
    assert slurm.asked == []


def test_faulty_node_is_drained_once(note: Path) -> None:
    slurm = cluster(4)
    assert settled(slurm, note, LOST) == "drain"
    drained = "update NodeName=gpu1 State=DRAIN Reason=busbar health: GPU 1 is lost"
    assert slurm.asked == ["show node gpu1", "--oneliner show nodes", drained, "--oneliner show nodes"]
    assert note.read_text() == "RESET\nbusbar health: GPU 1 is lost\n"
    assert settled(slurm, note, LOST, Finding("disk", RESET, "/ is full")) == "keep"
    assert slurm.asked[4:] == ["show node gpu1"]


def test_node_is_resumed_after_two_passes_only_if_allowed(note: Path) -> None:
    slurm = cluster(4)
    settled(slurm, note, LOST)
    before = len(slurm.asked)
    assert settled(slurm, note, passes=1) == "nothing"
    assert settled(slurm, note, passes=2, resume=False) == "nothing"
    assert len(slurm.asked) == before
    assert settled(slurm, note, passes=2) == "resume"
    assert slurm.updates[-1] == "update NodeName=gpu1 State=RESUME"
    assert not note.exists()


def test_node_with_hardware_to_be_replaced_is_not_resumed(note: Path) -> None:
    slurm = cluster(4)
    settled(slurm, note, LOST)
    settled(slurm, note, Finding("gpu", ISOLATE, "a row could not be remapped"))
    settled(slurm, note, LOST)
    assert settled(slurm, note, passes=5) == "nothing"
    assert len(slurm.updates) == 1


def test_drain_by_an_admin_is_kept_and_replaces_our_own(note: Path) -> None:
    slurm = cluster(4)
    settled(slurm, note, LOST)
    slurm.nodes["gpu1"] = ("IDLE+DRAIN", "new memory on Monday", f"{TIME}9")
    assert settled(slurm, note, passes=2) == "leave"
    assert settled(slurm, note, LOST) == "leave"
    assert len(slurm.updates) == 1
    assert not note.exists()


def test_manual_resume_is_respected_once(note: Path) -> None:
    slurm = cluster(4)
    settled(slurm, note, LOST)
    slurm.nodes["gpu1"] = ("IDLE", "", "")
    assert settled(slurm, note, LOST) == "given_back"
    assert settled(slurm, note, LOST) == "drain"


@pytest.mark.parametrize(
    ("nodes", "drained", "percent", "done"),
    [
        (4, 0, 10, "drain"),  # at least one
        (4, 1, 10, "withheld"),
        (20, 1, 10, "drain"),
        (20, 2, 10, "withheld"),
        (20, 4, 25, "drain"),
    ],
)
def test_number_of_drained_nodes_is_limited(note: Path, nodes: int, drained: int, percent: int, done: str) -> None:
    slurm = cluster(nodes, drained)
    assert settled(slurm, note, LOST, drain_percent=percent) == done
    assert len(slurm.updates) == (done == "drain")
    assert note.exists() == (done == "drain")


def test_drains_by_others_do_not_count_towards_the_limit(note: Path) -> None:
    slurm = cluster(4)
    slurm.nodes["gpu3"] = ("IDLE+DRAIN", "new memory", f"{TIME}1")
    slurm.nodes["gpu4"] = ("DOWN", "Not responding", f"{TIME}1")
    assert settled(slurm, note, LOST) == "drain"


@pytest.mark.parametrize(
    ("other", "since", "done"), [("gpu0", "5", "withheld"), ("gpu2", "5", "drain"), ("gpu2", "4", "withheld")]
)
def test_concurrent_drains_agree_on_the_excess_node(note: Path, other: str, since: str, done: str) -> None:
    def drain_another(slurm: Slurm) -> None:
        slurm.nodes[other] = ("IDLE+DRAIN", "busbar health: y", TIME + since)

    slurm = Slurm({"gpu1": ("IDLE", "", ""), other: ("IDLE", "", "")}, meanwhile=drain_another)
    assert settled(slurm, note, LOST) == done
    assert (slurm.nodes["gpu1"][0] == "IDLE") == (done == "withheld")
    assert note.exists() == (done == "drain")


def test_unresponsive_slurm_changes_nothing(note: Path) -> None:
    def silent(words: Sequence[str]) -> str:
        if words[0] == "show":
            return "NodeName=gpu1 State=IDLE"
        message = f"scontrol {' '.join(words)} does not answer"
        raise OSError(message)

    with pytest.raises(OSError, match=re.escape("--oneliner show nodes does not answer")):
        drain_or_resume([LOST], DECLARED, silent, note, 0, wait=lambda _: None)
    assert not note.exists()


def test_number_of_allowed_drains() -> None:
    assert [allowed_drains(nodes, 10) for nodes in (1, 9, 19, 20, 1000)] == [1, 1, 1, 2, 100]
    (held,) = records(f"NodeName=a State=IDLE+DRAIN Reason=busbar health: x [of 2] [root@{TIME}1] ReservationName=r\n")
    assert (held.reason, held.since) == ("busbar health: x [of 2]", f"{TIME}1")
    everyone = records("NodeName=a State=IDLE\nNodeName=b State=IDLE+DRAIN Reason=busbar health: x [root@2]\n")
    assert (drained_before(everyone, "a"), drained_before(everyone, "b")) == (1, 0)
    with pytest.raises(ValueError, match="no node"):
        records("")
