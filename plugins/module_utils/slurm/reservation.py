# Copyright (c) busbar contributors
# SPDX-License-Identifier: Apache-2.0
"""Manage the reservation for testing nodes that are out of service, which keeps other users' jobs off them.

Slurm starts no job on a drained node, not even in a reservation (select_nodes checks avail_node_bitmap). So a drained
node is resumed inside the reservation and drained again with the same reason when the test's job has started.
The running job continues, and the node stays drained even if the run is killed. Slurm records the caller as the user of
the new drain (update_node in node_mgr.c), so the original user and time are saved.

MAINT lets the reservation overlap with others and keeps their jobs off its nodes (job_test_resv in Slurm's
reservation.c); IGNORE_JOBS tolerates running jobs. The reservation has an end time, so it expires after a killed run.

New nodes are also in a second reservation without an end time. If a run is killed while they are resumed, they stay in
it, closed to other users' jobs, until they are tested again.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from .busbar_drain_reasons import NEW_RESERVATION, is_new
from .hostlist import expand_hosts
from .nodes_and_jobs import parse_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Ask = Callable[..., tuple[int, str, str]]

__all__ = ["NO_REASON", "OWN_NAME", "NodeReservation", "Reservation", "parse_reservation"]

# Name of busbar's reservation; a site may configure another one.
OWN_NAME = "busbar-validation"
_NONE = frozenset({"", "(null)"})
_GRACE_S = 300
_MOST_JOBS = 4
_ABSENT = re.compile(r"not found|No reservations|Requested reservation is invalid", re.IGNORECASE)
NO_REASON = "busbar: was drained before its validation"


class Reservation(NamedTuple):
    """A Slurm reservation."""

    name: str
    nodes: tuple[str, ...]
    users: tuple[str, ...]
    accounts: tuple[str, ...]
    flags: frozenset[str]

    def is_of(self, user: str) -> bool:
        """Return whether busbar created the reservation for a user."""
        return self.users == (user,) and not self.accounts and {"MAINT", "IGNORE_JOBS"} <= self.flags


def parse_reservation(text: str) -> Reservation | None:
    """Return the reservation in the output of ``scontrol -o show reservation NAME``, or None.

    Raises:
        ValueError: the node list cannot be parsed.
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
        name: name of the reservation in Slurm.
        opened: whether the reservation is ready for jobs.
    """

    def __init__(self, ask: Ask, name: str, user: str, *, fresh: bool) -> None:
        """Create the object without contacting Slurm.

        Args:
            ask: runs a command; returns exit code, output and error.
            name: name of the site's reservation, which is not changed; empty for busbar's reservation.
            user: user of the jobs in the reservation.
            fresh: whether this validation has not created it yet, so that an existing one belongs to another run.
        """
        self._ask = ask
        self._own = not name
        self._user = user
        self._fresh = fresh
        self.name = name or OWN_NAME
        self.opened = False

    def find(self, name: str = "") -> tuple[Reservation | None, str]:
        """Return the current reservation or None, and the error if Slurm could not be queried."""
        name = name or self.name
        code, out, err = self._ask("scontrol", "-o", "show", "reservation", name)
        try:
            found = parse_reservation(out)
        except ValueError as exc:
            return None, f"the reservation {name}: {exc}"
        if found is None and not _ABSENT.search(out + err):
            return None, f"cannot query the reservation {name}: {err or out or code}"
        return found, ""

    def problem(self) -> str:
        """Return why the reservation cannot be used, with the remedy; '' if usable or if Slurm does not answer."""
        found, unknown = self.find()
        if not unknown and (refused := self._refused(found)):
            return refused
        gate, _unknown = self.find(NEW_RESERVATION)
        return "" if gate is None or gate.is_of(self._user) else _foreign_error(gate)

    def members(self) -> frozenset[str]:
        """Return the current nodes of the reservation; empty if it is missing, unusable or stale."""
        found, _problem = self.find()
        usable = found is not None and not (self._own and self._fresh) and not self._refused(found)
        return frozenset(found.nodes if found is not None and usable else ())

    def _refused(self, found: Reservation | None) -> str:
        if not self._own:
            missing = f"the reservation {self.name} does not exist: create it, or leave validation_reservation empty"
            return missing if found is None else ""
        if found is None:
            return ""
        if not found.is_of(self._user):
            return f"{_foreign_error(found)}, or set validation_reservation to another reservation"
        return self._in_use() if self._fresh else ""

    def _in_use(self) -> str:
        """Return an error that names the jobs of another validation in the reservation, or ''."""
        code, out, err = self._ask("squeue", "-h", "-a", "-R", self.name, "-o", "%i")
        if code != 0:
            return f"cannot list the jobs in the reservation {self.name}: {err or code}"
        jobs = out.split()
        shown = " ".join(jobs[:_MOST_JOBS]) + (" …" if len(jobs) > _MOST_JOBS else "")
        return (
            f"another validation uses the reservation {self.name} (job {shown}): wait until it ends; if it was killed, "
            f"'scancel {' '.join(jobs)}' and run this one again"
            if jobs
            else ""
        )

    def open(self, nodes: Iterable[str], seconds: float) -> str:
        """Add the nodes to the reservation for `seconds` plus a grace period; return an error or ''."""
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
            return f"the reservation {self.name} could not be created: {' '.join((err or out).split()) or code}"
        self._fresh, self.opened = False, True
        return ""

    def new_nodes(self, members: Iterable[str]) -> list[str]:
        """Return the nodes in the reservation for new nodes that a killed run did not drain again."""
        gate, _unknown = self.find(NEW_RESERVATION)
        return sorted({*members} & {*gate.nodes}) if gate is not None and gate.is_of(self._user) else []

    def reserve_new_nodes(self, held: dict[str, str]) -> str:
        """Add the new nodes among the drained ones to the reservation without end time; return an error or ''."""
        new = sorted(node for node, reason in held.items() if is_new(reason))
        if not new or not self._own:
            return ""
        gate, problem = self.find(NEW_RESERVATION)
        if problem or (gate is not None and not gate.is_of(self._user)):
            return problem or (_foreign_error(gate) if gate else "")
        name = f"ReservationName={NEW_RESERVATION}"
        nodes = f"Nodes={','.join(sorted({*new, *(gate.nodes if gate else ())}))}"
        words = [name, nodes, "StartTime=now", "Duration=infinite", f"Users={self._user}", "Flags=maint,ignore_jobs"]
        command = ["update", name, nodes] if gate else ["create", "reservation", *words]
        code, out, err = self._ask("scontrol", *command)
        return f"the reservation {NEW_RESERVATION} could not be created: {err or out or code}" if code != 0 else ""

    def release_new_nodes(self, held: dict[str, str], left: Iterable[str]) -> None:
        """Remove nodes from the reservation without end time if all are drained again (`left` is empty)."""
        gate, _unknown = self.find(NEW_RESERVATION) if held and not {*left} else (None, "")
        if gate is None or not gate.is_of(self._user):
            return
        name, others = f"ReservationName={NEW_RESERVATION}", sorted({*gate.nodes} - held.keys())
        self._ask("scontrol", *(["update", name, f"Nodes={','.join(others)}"] if others else ["delete", name]))

    def resume(self, held: dict[str, str]) -> str:
        """Resume drained nodes; return an error or ''."""
        if not held:
            return ""
        words = ("scontrol", "update", f"NodeName={','.join(sorted(held))}", "State=RESUME")
        code, out, err = self._ask(*words)
        return "" if code == 0 else f"{', '.join(sorted(held))} could not be resumed: {err or out or code}"

    def drain(self, held: dict[str, str]) -> dict[str, str]:
        """Drain nodes again with their reasons; return the nodes that could not be drained, with the remedy."""
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
        """Delete busbar's reservation; return why it still exists, or ''."""
        if not self._own:
            return ""
        found, problem = self.find()
        if problem or found is None or not found.is_of(self._user):
            return problem
        code, out, err = self._ask("scontrol", "delete", f"ReservationName={self.name}")
        if code == 0:
            return ""
        output = " ".join((err or out).split()) or str(code)
        return f"the reservation {self.name} could not be deleted ({output}); it expires automatically"


def _foreign_error(found: Reservation) -> str:
    owner = ",".join(found.users + found.accounts) or "no user or account"
    return (
        f"the reservation {found.name} was not created by busbar (it is for {owner}): delete it with "
        f"'scontrol delete ReservationName={found.name}' if it is no longer needed"
    )
