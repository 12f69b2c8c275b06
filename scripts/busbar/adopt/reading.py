"""The state of a DeepOps conversion: the source, the draft, and shorthand methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.catalogue.builtin_profiles import shipped_profile

from busbar.adopt.draft import LEFT
from busbar.adopt.source import is_on, unresolved

if TYPE_CHECKING:
    from collections.abc import Mapping

    from busbar.adopt.cluster_source import HostReading
    from busbar.adopt.draft import Draft
    from busbar.adopt.source import Source


@dataclass
class Reading:
    """The data that all steps of a conversion use.

    Attributes:
        source: the inventory.
        draft: the result.
        release: release of DeepOps.
        master: the first controller, whose values count for settings of the whole cluster.
        defaults: values of variables that the site does not set.
        hardware: profile of each host whose hardware is known.
        read: files and outputs of the hosts by name; empty if no host was contacted.
        template: path and text of the site's own slurm.conf; the text is empty without one.
        members: Slurm accounts of each user that slurm_accounts names.
    """

    source: Source
    draft: Draft
    release: str
    master: str
    defaults: Mapping[str, Any]
    hardware: dict[str, str] = field(default_factory=dict)
    read: Mapping[str, HostReading] = field(default_factory=dict)
    template: tuple[str, str] = ("", "")
    members: dict[str, list[str]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Return whether the site sets a variable on any host."""
        return any(name in variables for variables in self.source.hosts.values())

    def value(self, name: str) -> Any:  # noqa: ANN401 - a value of YAML
        """Return the value on the first controller, else the default of DeepOps."""
        return self.source.value(self.master, name, self.defaults.get(name))

    def on(self, name: str) -> bool:
        """Return the truth value of a variable on the first controller."""
        return is_on(self.value(name))

    def by_host(self, name: str) -> dict[str, Any]:
        """Return the values of a variable by host of the draft, without those that need facts."""
        found = self.source.values(name)
        return {host: value for host, value in found.items() if host in self.draft.hosts and not unresolved(value)}

    def note(self, name: str, result: str, reason: str) -> None:
        """Record what became of a variable, with the lines that set it."""
        self.draft.note(name, result, reason, self.source.where(name))

    def note_if_set(self, name: str, result: str, reason: str) -> None:
        """Record what became of a variable if the site sets it and nothing was recorded yet."""
        if self.has(name) and name not in self.noted():
            self.note(name, result, reason)

    def carry(self, name: str, options: Mapping[str, Any]) -> None:
        """Set options of all hosts from a variable."""
        self.draft.carry(name, options, self.source.where(name))

    def leave(self, name: str, reason: str) -> None:
        """Record that a variable is not carried over, if the site sets it and nothing was recorded yet."""
        self.note_if_set(name, LEFT, reason)

    def noted(self) -> set[str]:
        """Return the names of all notes."""
        return {note.name for note in self.draft.notes}

    def number(self, path: str, name: str, column: int = 2) -> int | None:
        """Return the UID or GID of a name in /etc/passwd or /etc/group; None if missing or inconsistent."""
        lines = [line for each in self.read.values() for line in each.files.get(path, "").splitlines()]
        found = {line.split(":")[column] for line in lines if line.startswith(f"{name}:")}
        return int(found.pop()) if len(found) == 1 else None

    def gpu(self, host: str) -> dict[str, Any] | None:
        """Return the GPUs of a host, or None if it has none or its hardware is not known."""
        name = self.hardware.get(host)
        own = self.draft.variables.get("hardware_profiles_extra", {})
        found = (own.get(name) or shipped_profile(name)).get("gpu") if name else None
        return dict(found) if found else None

    def file(self, given: str) -> Path | None:
        """Return the file whose path, relative to DeepOps' checkout, is in a variable; None if it does not exist."""
        folder, name = self.source.folder, Path(given).name
        places = (folder / given, folder / given.rpartition("config/")[2], folder / "files" / name, folder / name)
        return next((path for path in places if path.is_file()), None)
