# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""A reservation in which nodes are tested that are not in service: nobody else's job starts on them meanwhile.

Slurm starts no job on a drained node, in a reservation neither (select_nodes looks at avail_node_bitmap). So a drained
node is resumed inside the reservation, and drained again, with its own reason, as soon as the job of the test has
started: that job goes on, and whatever ends the run, the node is drained with its reason. User and time of the drain
are those of whoever asks (update_node in node_mgr.c), so who it was before is noted.

The flag MAINT lets the reservation overlap with those of others and keeps their jobs from its nodes (job_test_resv in
Slurm's reservation.c); IGNORE_JOBS lets running jobs be. It has an end, so that a run that is killed leaves nothing for
good.

Nodes that are new to the cluster are in a second one meanwhile, which has no end: killed at the very moment in which
they are not drained, a run leaves them there, where nobody's job can start, until they are tested again.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from .hostlist import expand_hosts
from .jobs import parse_job
from .new_reason import NEW_RESERVATION, is_new

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Ask = Callable[..., tuple[int, str, str]]

__all__ = ["NO_REASON", "OWN_NAME", "NodeReservation", "Reservation", "parse_reservation"]

# The one that busbar makes; a site may name one of its own instead.
OWN_NAME = "busbar-validation"
_NONE = frozenset({"", "(null)"})
_GRACE_S = 300
_MOST_JOBS = 4
_ABSENT = re.compile(r"not found|No reservations|Requested reservation is invalid", re.IGNORECASE)
NO_REASON = "busbar: was drained before its validation"


class Reservation(NamedTuple):
    """A reservation as Slurm has it."""

    name: str
    nodes: tuple[str, ...]
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    flags: frozenset[str]

    def is_of(self, user: str) -> bool:
        """Return whether it is one that busbar made for a user."""
        return self.users == (user,) and not self.accounts and {"MAINT", "IGNORE_JOBS"} <= self.flags


def parse_reservation(text: str) -> Reservation | None:
    """Return what ``scontrol -o show reservation NAME`` says, None when there is no reservation in it.

    Raises:
        ValueError: its list of nodes cannot be read.
    """
    line = next((line for line in text.splitlines() if line.startswith("ReservationName=")), None)
    if line is None:
        return None
    fields = {key: "" if value in _NONE else value for key, value in parse_job(line).items()}
    words = {key: tuple(filter(None, fields.get(key, "").split(","))) for key in ("Users", "Accounts", "Flags")}
    nodes = tuple(expand_hosts(fields.get("Nodes", "")))
    return Reservation(fields["ReservationName"], nodes, words["Users"], words["Accounts"], frozenset(words["Flags"]))


class NodeReservation:
    """The reservation of a validation.

    Attributes:
        name: in Slurm.
        opened: whether it was made ready for jobs here.
    """

    def __init__(self, ask: Ask, name: str, user: str, *, fresh: bool) -> None:
        """Take how Slurm is asked.

        Args:
            ask: runs a command; returns exit code, output and error.
            name: of the site's own reservation, which is used as it is; empty for one that is made here.
            user: whose jobs may run in it.
            fresh: whether this validation has made none yet, so that one that is there is not its own.
        """
        self._ask = ask
        self._own = not name
        self._user = user
        self._fresh = fresh
        self.name = name or OWN_NAME
        self.opened = False

    def find(self, name: str = "") -> tuple[Reservation | None, str]:
        """Return the reservation as it is now, None when there is none, and why that could not be found out."""
        name = name or self.name
        code, out, err = self._ask("scontrol", "-o", "show", "reservation", name)
        try:
            found = parse_reservation(out)
        except ValueError as exc:
            return None, f"the reservation {name}: {exc}"
        if found is None and not _ABSENT.search(out + err):
            return None, f"Slurm does not say whether there is a reservation {name}: {err or out or code}"
        return found, ""

    def problem(self) -> str:
        """Return why the reservation cannot be used, with the remedy; an empty text when it can, or nobody answers."""
        found, unknown = self.find()
        if not unknown and (refused := self._refused(found)):
            return refused
        gate, _unknown = self.find(NEW_RESERVATION)
        return "" if gate is None or gate.is_of(self._user) else _strange(gate)

    def members(self) -> frozenset[str]:
        """Return the nodes that it has now; none when there is none that can be used, or it is a left-over."""
        found, _problem = self.find()
        usable = found is not None and not (self._own and self._fresh) and not self._refused(found)
        return frozenset(found.nodes if found is not None and usable else ())

    def _refused(self, found: Reservation | None) -> str:
        if not self._own:
            missing = f"there is no reservation {self.name}: create it, or leave validation_reservation empty"
            return missing if found is None else ""
        if found is None:
            return ""
        if not found.is_of(self._user):
            return f"{_strange(found)}, or name one that the validation may use with validation_reservation"
        return self._in_use() if self._fresh else ""

    def _in_use(self) -> str:
        """Return which jobs run in a reservation that another validation has made, in a sentence; empty for none."""
        code, out, err = self._ask("squeue", "-h", "-a", "-R", self.name, "-o", "%i")
        if code != 0:
            return f"Slurm does not say which jobs are in the reservation {self.name}: {err or code}"
        jobs = out.split()
        shown = " ".join(jobs[:_MOST_JOBS]) + (" …" if len(jobs) > _MOST_JOBS else "")
        return (
            f"another validation uses the reservation {self.name} (job {shown}): wait for its end; if it was killed, "
            f"'scancel {' '.join(jobs)}' and run this one again"
            if jobs
            else ""
        )

    def open(self, nodes: Iterable[str], seconds: float) -> str:
        """Have the reservation hold these nodes for so many seconds, and some minutes more; returns why it does not."""
        members = sorted(nodes)
        found, problem = self.find()
        problem = problem or self._refused(found)
        if problem:
            return problem
        if not self._own:
            missing = sorted(set(members) - set(found.nodes if found else ()))
            self.opened = not missing
            return f"{', '.join(missing)} is not in the reservation {self.name}" if missing else ""
        if found is not None and self._fresh:
            self._ask("scontrol", "delete", f"ReservationName={self.name}")
            found = None
        minutes = math.ceil((seconds + _GRACE_S) / 60)
        name, members_word = f"ReservationName={self.name}", f"Nodes={','.join(members)}"
        if found is not None:
            code, out, err = self._ask("scontrol", "update", name, members_word, f"EndTime=now+{minutes}minutes")
        else:
            words = [name, members_word, "StartTime=now", f"Duration={minutes}", f"Users={self._user}"]
            code, out, err = self._ask("scontrol", "create", "reservation", *words, "Flags=maint,ignore_jobs")
        if code != 0:
            return f"the reservation {self.name} could not be made: {' '.join((err or out).split()) or code}"
        self._fresh, self.opened = False, True
        return ""

    def new_nodes(self, members: Iterable[str]) -> list[str]:
        """Return those of some nodes that a run which was killed has left without their drain, behind the gate."""
        gate, _unknown = self.find(NEW_RESERVATION)
        return sorted({*members} & {*gate.nodes}) if gate is not None and gate.is_of(self._user) else []

    def hold(self, held: dict[str, str]) -> str:
        """Keep everybody's jobs from the new ones of drained nodes, for however long; returns why that is not so."""
        new = sorted(node for node, reason in held.items() if is_new(reason))
        if not new or not self._own:
            return ""
        gate, problem = self.find(NEW_RESERVATION)
        if problem or (gate is not None and not gate.is_of(self._user)):
            return problem or (_strange(gate) if gate else "")
        name = f"ReservationName={NEW_RESERVATION}"
        nodes = f"Nodes={','.join(sorted({*new, *(gate.nodes if gate else ())}))}"
        words = [name, nodes, "StartTime=now", "Duration=infinite", f"Users={self._user}", "Flags=maint,ignore_jobs"]
        command = ["update", name, nodes] if gate else ["create", "reservation", *words]
        code, out, err = self._ask("scontrol", *command)
        return f"the reservation {NEW_RESERVATION} could not be made: {err or out or code}" if code != 0 else ""

    def let_go(self, held: dict[str, str], left: Iterable[str]) -> None:
        """Give up what `hold` keeps, once its nodes are drained again; those that are not stay where they are."""
        gate, _unknown = self.find(NEW_RESERVATION) if held and not {*left} else (None, "")
        if gate is None or not gate.is_of(self._user):
            return
        name, others = f"ReservationName={NEW_RESERVATION}", sorted({*gate.nodes} - held.keys())
        self._ask("scontrol", *(["update", name, f"Nodes={','.join(others)}"] if others else ["delete", name]))

    def resume(self, held: dict[str, str]) -> str:
        """Let jobs start on drained nodes; returns why that was not possible."""
        if not held:
            return ""
        words = ("scontrol", "update", f"NodeName={','.join(sorted(held))}", "State=RESUME")
        code, out, err = self._ask(*words)
        return "" if code == 0 else f"{', '.join(sorted(held))} could not be resumed: {err or out or code}"

    def drain(self, held: dict[str, str]) -> dict[str, str]:
        """Drain nodes again, each with its own reason; returns those that could not be, with the remedy."""
        nodes_of: dict[str, list[str]] = {}
        for node, reason in held.items():
            nodes_of.setdefault(reason or NO_REASON, []).append(node)
        left: dict[str, str] = {}
        for reason, nodes in nodes_of.items():
            names = ",".join(sorted(nodes))
            words = ["scontrol", "update", f"NodeName={names}", "State=DRAIN", f"Reason={reason}"]
            if not any(self._ask(*words)[0] == 0 for _attempt in range(3)):
                why = f"could not be drained again: scontrol update NodeName={names} State=DRAIN Reason='{reason}'"
                left |= dict.fromkeys(nodes, why)
        return left

    def close(self) -> str:
        """Delete the reservation that was made here; returns why it is still there."""
        if not self._own:
            return ""
        found, problem = self.find()
        if problem or found is None or not found.is_of(self._user):
            return problem
        code, out, err = self._ask("scontrol", "delete", f"ReservationName={self.name}")
        if code == 0:
            return ""
        said = " ".join((err or out).split()) or str(code)
        return f"the reservation {self.name} could not be deleted ({said}); it ends by itself"


def _strange(found: Reservation) -> str:
    whose = ",".join(found.users + found.accounts) or "nobody in particular"
    return (
        f"the reservation {found.name} is not one that busbar made (it is for {whose}): delete it with "
        f"'scontrol delete ReservationName={found.name}' if nobody needs it"
    )
