"""`busbar provision --slices`: what must hold for it, and the whole of such a run."""

from __future__ import annotations

import dataclasses
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.run_lock import (
    LockedError,
    RunLock,
    lock_paths,
    needs_no_lock,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_folder import site_folder
from ansible_collections.busbar.cluster.plugins.plugin_utils.slice_link import SOCKET

from busbar.errors import UsageError
from busbar.option_values import whole
from busbar.paths import collection
from busbar.run.events import Run
from busbar.run.playbook import host_groups, host_variables, inventory_hosts, run_playbook
from busbar.run.slices import carried
from busbar.run.slices.crew import Crew, without_limit
from busbar.run.slices.links import check_places
from busbar.run.slices.share_out import Node, Shares, share_out
from busbar.run.slices.together import Tally, put_together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from busbar.run.events import Display
    from busbar.run.playbook import Playbook

__all__ = ["Sliced", "sliced"]

# What configures all hosts in one go; the others work batch by batch, or on the cluster as a whole.
PARTS = ("site", "configure", "preflight", "base", "storage", "nvidia", "slurm", "containers", "portal", "monitoring")
_COMPUTE = "slurm_compute"
_MOST = 1000
_CHECK = frozenset({"-C", "--check"})
_NO_SLICES = frozenset({"--start-at-task", "--syntax-check", "--list-hosts", "--list-tasks", "--list-tags"})
_FILES = frozenset(
    {"--private-key", "--key-file", "--become-password-file", "--become-pass-file", "--connection-password-file"}
    | {"--conn-pass-file", "--vault-id", "--vault-password-file", "--vault-pass-file"}
)


@dataclasses.dataclass(frozen=True)
class Sliced:
    """A run that is shared out.

    Attributes:
        shares: the hosts of each slice.
        places: where slices run, none for this host.
    """

    shares: Shares
    places: list[str]

    def run(self, playbook: Playbook, display: Display, log: Path) -> tuple[Run, int, bool]:
        """Run all of it; returns what it did, the exit code as of Ansible, and whether it was broken off."""
        own = collection() / "playbooks"
        site = playbook.path == own / "site.yml"
        with _locked(playbook):
            part = dataclasses.replace(playbook, path=own / "configure.yml") if site else playbook
            done = Crew(part, self.shares, self.places, display, log).work()
            if done.stopped or not site:
                return done.run, done.returned, done.interrupted
            with tempfile.NamedTemporaryFile("w", prefix="busbar-limit-", encoding="utf-8") as limit:
                bad = {*done.run.stats["failures"], *done.run.stats["dark"]}
                sound = [host for host in self._hosts() if host not in bad]
                limit.write("".join(f"{host}\n" for host in sound))
                limit.flush()
                rest = dataclasses.replace(
                    playbook,
                    path=own / "put_into_service.yml",
                    options=[*without_limit(playbook.options), "--limit", f"@{limit.name}"],
                    # It is under the lock of this process.
                    environment=playbook.environment | {SOCKET: "-"},
                )
                run = Run(display, lambda _: 0)
                returned, interrupted = run_playbook(rest, run, log)
        both = put_together(display, [(done.run, Tally.of(done.run)), (run, Tally.of(run))])
        both.tasks = done.run.tasks + run.tasks
        return both, done.returned or returned, interrupted

    def _hosts(self) -> list[str]:
        return [*self.shares.cluster, *(host for hosts in self.shares.slices for host in hosts)]


def sliced(number: str | None, places: Sequence[str], playbook: Playbook) -> Sliced | None:
    """Return how a run is shared out, None when it is not; looks at the other hosts, and changes nothing.

    Raises:
        UsageError: it cannot be.
    """
    if number is None:
        if places:
            message = f"--on {places[0]}: says where slices run: say how many, such as --slices {len(places)}"
            raise UsageError(message)
        return None
    count = whole("--slices", number, 1, _MOST)
    _refuse(playbook, places)
    if places and count < len(places):
        message = f"--slices {count}: leaves {len(places) - count} of the {len(places)} hosts of --on without work"
        raise UsageError(message)
    hosts = inventory_hosts(playbook, "all")
    groups, variables = host_groups(playbook), host_variables(playbook)
    nodes = [
        Node(host, groups[host], str(variables.get(host, {}).get("nvlink_domain") or ""))
        for host in hosts
        if _COMPUTE in groups[host]
    ]
    shares = share_out(hosts, nodes, count)
    if not shares.cluster:
        message = "--slices: the run has no host"
        raise UsageError(message)
    check_places(places)
    return Sliced(shares, list(places))


def _refuse(playbook: Playbook, places: Sequence[str]) -> None:
    """Look whether a playbook can be shared out.

    Raises:
        UsageError: says what is in the way.
    """
    own = {collection() / "playbooks" / f"{name}.yml" for name in PARTS}
    if playbook.path not in own:
        message = f"--slices: {playbook.path.stem} works on the cluster as a whole; slices are for {', '.join(PARTS)}"
        raise UsageError(message)
    option = next((word for word in playbook.options if word in _NO_SLICES), None)
    if option is not None:
        message = f"--slices: cannot be used with {option}"
        raise UsageError(message)
    if not places:
        return
    site = site_folder(playbook.inventory[0])
    for source in playbook.inventory:
        if "," in source or not Path(source).resolve().is_relative_to(site.resolve()):
            message = f"--on: inventory {source} is not in the folder of the site ({site}), which is what is sent there"
            raise UsageError(message)
    option = next((word for word in playbook.options if word in _FILES or word.startswith("@")), None)
    if option is not None:
        message = f"--on: {option} names a file of this host, which the others do not have: put it into the site"
        raise UsageError(message)
    try:
        carried.looks(site)
    except (carried.TooLargeError, OSError) as exc:
        message = f"--on: the site cannot be sent: {exc}"
        raise UsageError(message) from exc


@contextmanager
def _locked(playbook: Playbook) -> Iterator[None]:
    """Hold the lock of the inventory for all slices.

    Raises:
        UsageError: another run has it.
    """
    taken: list[RunLock] = []
    try:
        if _CHECK.isdisjoint(playbook.options) and not needs_no_lock(playbook.path):
            for path in lock_paths(playbook.inventory):
                lock = RunLock(path)
                lock.take(playbook.command or "busbar provision")
                taken.append(lock)
        yield
    except LockedError as exc:
        raise UsageError(str(exc)) from exc
    finally:
        for lock in taken:
            lock.release()
