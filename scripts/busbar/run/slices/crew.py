"""Runs the slices of a playbook to their end: keeps their order, takes over what dies, puts together what they did."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.common.hostlist import fold_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_folder import site_folder

from busbar.paths import collection
from busbar.run.events import Failure, Run
from busbar.run.execution import signals_to, write_event
from busbar.run.slices import carried
from busbar.run.slices.links import HERE, Link
from busbar.run.slices.order import GO, STOPPED, Order
from busbar.run.slices.shown import Shown
from busbar.run.slices.together import Tally, put_together
from busbar.run.slices.worker import LEASE_S

if TYPE_CHECKING:
    import io
    from collections.abc import Sequence

    from busbar.run.events import Display
    from busbar.run.playbook import Playbook
    from busbar.run.slices.share_out import Shares

__all__ = ["CLUSTER", "Crew", "Outcome", "without_limit"]

CLUSTER = "cluster"
_FAILED, _BROKEN_OFF = 2, 1
# What ansible-playbook returns when it cannot use its command line, playbook or inventory.
_REFUSED = frozenset({1, 2, 4, 5})
_PING_S = 5.0
_MOST_ATTEMPTS = 3
_LIMITS = frozenset({"-l", "--limit"})
Message = dict[str, Any]


@dataclasses.dataclass
class Outcome:
    """How the slices ended.

    Attributes:
        run: what all did together.
        returned: the exit code as of one ansible-playbook.
        interrupted: whether the user broke it off.
        stopped: whether what comes after it may not run.
    """

    run: Run
    returned: int
    interrupted: bool
    stopped: bool


class _Slice:
    """One list of hosts, and whoever works on it now."""

    def __init__(self, name: str, hosts: list[str], place: str) -> None:
        self.name, self.hosts, self.place = name, hosts, place
        self.attempts = 0
        self.link: Link | None = None
        self.run: Run | None = None
        self.tally = Tally()
        self.returned: int | None = None
        self.due = 0.0
        # What the site's files were like when both sides had the same.
        self.seen: dict[str, str] = {}


class Crew:
    """All slices of one run."""

    def __init__(self, playbook: Playbook, shares: Shares, places: Sequence[str], display: Display, log: Path) -> None:
        """Take what is to run.

        Args:
            playbook: what each slice runs.
            shares: who belongs to which slice.
            places: where the slices run, in turn; that of the cluster's own hosts runs here.
            display: shows it.
            log: takes everything that is printed.
        """
        self._playbook, self._display, self._log = playbook, display, log
        self._site = site_folder(playbook.inventory[0])
        own = _Slice(CLUSTER, shares.cluster, HERE)
        others = [
            _Slice(f"slice {number}", hosts, places[(number - 1) % len(places)] if places else HERE)
            for number, hosts in enumerate(shares.slices, 1)
        ]
        self._slices = {one.name: one for one in (own, *others)}
        self._order = Order(CLUSTER, [one.name for one in others])
        self._inbox: queue.Queue[tuple[Link, Message | None]] = queue.Queue()
        self._lost: set[str] = set()
        self._cancels = 0
        self._failures: list[Failure] = []

    def work(self) -> Outcome:
        """Run all slices to their end."""
        for one in self._slices.values():
            where = f" on {one.place}" if one.place else ""
            self._display.line(f"{one.name}: {len(one.hosts)} hosts{where}: {fold_hosts(one.hosts)}")
        try:
            with signals_to(self._asked_to_end), self._log.open("ab", buffering=0) as stream:
                for one in self._slices.values():
                    self._start(one)
                self._loop(stream)
        finally:
            for one in self._slices.values():
                if one.link is not None:
                    one.link.close()
        run = put_together(
            self._display, [(one.run, one.tally) for one in self._slices.values() if one.run is not None]
        )
        for failure in self._failures:
            run.add_failure(failure)
        codes = [one.returned for one in self._slices.values() if one.returned]
        returned = next((code for code in codes if code != STOPPED), _FAILED if codes else 0)
        return Outcome(run, returned, self._cancels > 0, self._order.stopped or self._cancels > 0)

    def _asked_to_end(self, number: int, frame: object) -> None:
        del number, frame
        # The loop hands it on: it may be about to write to a slice at this very moment.
        self._cancels += 1

    def _start(self, one: _Slice) -> None:
        """Give a slice to a process of its own."""
        one.attempts += 1
        one.tally, earlier = Tally(), one.tally
        one.tally.earlier = [*earlier.earlier, earlier] if one.attempts > 1 else []
        one.run = Run(Shown(self._display, one.name, first=one.name == CLUSTER), lambda _: 0)
        self._order.begins(one.name)
        one.link = Link(one.name, one.place, self._inbox)
        one.link.send(**self._job(one))

    def _job(self, one: _Slice) -> Message:
        options, away = without_limit(self._playbook.options), one.place != HERE
        job: Message = {
            "playbook": str(self._playbook.path),
            "inventory": self._playbook.inventory,
            "limit": one.hosts,
            "options": options,
            "passwords": self._playbook.passwords,
            "environment": self._playbook.environment,
            "command": self._playbook.command,
        }
        if away:
            one.seen = carried.looks(self._site)
            job["site"] = carried.contents(self._site, list(one.seen))
            job["playbook"] = str(self._playbook.path.relative_to(collection().resolve() / "playbooks"))
            job["inventory"] = [_within(self._site, source) for source in self._playbook.inventory]
            job["environment"] = {}
        return job

    def _loop(self, stream: io.FileIO) -> None:
        """Take what the slices say until none is left."""
        pinged, handed_on = 0.0, 0
        while any(one.returned is None for one in self._slices.values()):
            with contextlib.suppress(queue.Empty):
                link, message = self._inbox.get(timeout=1)
                one = self._slices[link.name]
                # Whoever was taken over has nothing more to say.
                if link is one.link:
                    self._take(one, link, message, stream)
            if handed_on < self._cancels:
                handed_on += 1
                self._order.stop()
                self._tell_all(cancel=True)
            now = time.monotonic()
            if now - pinged > _PING_S:
                pinged = now
                self._tell_all(ping=True)
            self._take_over(now)
            self._answer()

    def _tell_all(self, **what: bool) -> None:
        for one in self._slices.values():
            if one.link is not None:
                one.link.send(**what)

    def _take_over(self, now: float) -> None:
        """Start what died and may begin again, unless the user wants the run to end."""
        for one in self._slices.values():
            if one.link is not None or one.returned is not None:
                # It works, or has come to its end.
                continue
            if self._cancels:
                one.returned = _BROKEN_OFF
                self._order.ends(one.name)
            elif now >= one.due:
                self._start(one)

    def _answer(self) -> None:
        for name, said in self._order.answers():
            one = self._slices[name]
            if one.link is not None:
                files = self._news(one) if one.place != HERE and said == GO else {}
                one.link.send(answer=said, **({"files": files} if files else {}))

    def _news(self, one: _Slice) -> carried.Files:
        """Return the files of the site that another host does not have as they are."""
        now = carried.looks(self._site)
        names = carried.changed(one.seen, now)
        one.seen = now
        return carried.contents(self._site, names)

    def _take(self, one: _Slice, link: Link, message: Message | None, stream: io.FileIO) -> None:
        """Take in what a slice says; None is its end."""
        if message is None:
            self._died(one, link, link.trouble)
            return
        if message.get("files"):
            self._bring_home(one, message["files"])
        if "event" in message:
            self._event(one, link, message["event"], stream)
        elif "play" in message:
            self._order.asks_play(one.name, int(message["play"]), together=bool(message["together"]))
        elif "alone" in message:
            self._order.asks_alone(one.name)
        elif "shared" in message:
            self._order.shares(one.name)
        elif "end" in message:
            self._ended(one, link, message)

    def _event(self, one: _Slice, link: Link, event: Message, stream: io.FileIO) -> None:
        if link.pid is None and isinstance(event.get("pid"), int):
            link.pid = event["pid"]
        if one.run is None:
            return
        said = str(event.get("stdout") or "").rstrip("\r\n")
        shown = "\n".join(f"[{one.name}] {line}" if line else "" for line in said.splitlines())
        write_event(stream, one.run, event | {"stdout": shown})
        one.tally.take(event)
        one.run.handle(event)

    def _bring_home(self, one: _Slice, files: carried.Files) -> None:
        """Take over what a slice on another host has written into its copy of the site."""
        now = carried.looks(self._site)
        clash = [name for name in files if now.get(name) != one.seen.get(name)]
        carried.apply(self._site, {name: found for name, found in files.items() if name not in clash})
        after = carried.looks(self._site)
        one.seen |= {name: after[name] for name in files if name not in clash}
        if clash:
            self._order.stop()
            self._fail(
                one,
                f"{one.name} changed {', '.join(clash)} of the site, which another slice or somebody here has changed, "
                "too: what it wrote is not taken over; look at the file, and run again",
            )

    def _ended(self, one: _Slice, link: Link, message: Message) -> None:
        """Take in that the playbook of a slice has ended."""
        told = message.get("told") or {}
        asked = message.get("cancelled") or self._cancels
        if not told and not asked and not self._order.stopped and not self._refused(one, message):
            self._died(one, link, f"ansible-playbook ended with exit code {message['end']}")
            return
        one.returned = int(message["end"])
        self._order.ends(one.name)
        link.close()
        # Its last word is no death.
        one.link = None
        if one.run is not None:
            one.run.close()
        one.tally.close()
        if told.get("stopped") or (one.name == CLUSTER and told.get("early")) or (not told and one.returned):
            self._order.stop()

    def _refused(self, one: _Slice, message: Message) -> bool:
        """Whether Ansible would not even begin: another attempt would end in the same way."""
        if message["end"] not in _REFUSED or one.run is None or one.run.tasks:
            return False
        # Whoever was killed before the first task has said nothing of that kind.
        return bool(one.run.errors) or any("ERROR" in text or "usage:" in text for text in one.run.prelude)

    def _died(self, one: _Slice, link: Link, why: str) -> None:
        """Give a slice whose process is gone to another one."""
        link.close()
        one.link = None
        if one.run is not None:
            one.run.close()
        where = f" on {link.place}" if link.place else ""
        said = f"{one.name}{where} died: {why or 'its process is gone'}"
        if self._cancels or one.attempts >= _MOST_ATTEMPTS:
            one.returned = _BROKEN_OFF
            self._order.ends(one.name)
            if not self._cancels:
                self._order.stop()
                self._fail(one, f"{said}; that was attempt {one.attempts} of {_MOST_ATTEMPTS}")
            return
        self._order.shares(one.name)
        if link.place:
            self._lost.add(link.place)
            # Whoever cannot be reached ends its playbook by itself, and nobody else works on its hosts before.
            one.due = time.monotonic() + LEASE_S + _PING_S
            left = [place for place in dict.fromkeys(other.place for other in self._slices.values()) if place]
            one.place = next((place for place in left if place not in self._lost), HERE)
        wait = f", in {LEASE_S + _PING_S:.0f} s, when it has surely ended there" if link.place else ""
        self._display.line(
            f"{said}; its {len(one.hosts)} hosts are taken over {f'on {one.place}' if one.place else 'here'}"
            f"{wait}: {fold_hosts(one.hosts)}"
        )

    def _fail(self, one: _Slice, message: str) -> None:
        one.tally.fail(one.hosts)
        self._failures.append(Failure(one.name, message, "", "", "failed", hosts=list(one.hosts)))


def without_limit(options: Sequence[str]) -> list[str]:
    """Return options without the user's own limit: each slice has its list of hosts."""
    left, words = [], iter(options)
    for word in words:
        if word in _LIMITS:
            next(words, None)
        else:
            left.append(word)
    return left


def _within(site: Path, source: str) -> str:
    return str(Path(source).resolve().relative_to(site.resolve()))
