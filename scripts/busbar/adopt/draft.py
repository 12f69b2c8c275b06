"""The draft of a site: hosts, groups, variables, and what became of each setting of the source."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from busbar.errors import UsageError
from busbar.paths import site_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

ASK, LEFT, CARRIED, DEFAULT = "question", "not carried over", "carried over", "already the default"
CHANGED = "changed"
_TITLES = {
    ASK: "Questions to answer before takeover",
    CHANGED: "Changes on the hosts",
    LEFT: "Not carried over",
    CARRIED: "Carried over",
    DEFAULT: "Already the default of busbar",
}
# Option prefix -> file below group_vars/all; other options are in cluster.yml.
_FILES = {
    "slurm_": "slurm",
    "users_": "users",
    **dict.fromkeys(
        ("enroot_", "pyxis_", "lmod_", "apptainer_", "cuda_", "nvidia_", "mig_", "dcgm_", "gpu_settings_"), "software"
    ),
    **dict.fromkeys(("monitoring_", "prometheus_", "grafana_", "alertmanager_", "node_exporter_"), "monitoring"),
}


class Vaulted(str):
    """The text of a value that ansible-vault encrypted; written unchanged, with its tag."""

    __slots__ = ()


@dataclass(frozen=True)
class Note:
    """The result for a setting of the source.

    Attributes:
        name: the setting as the source writes it, such as `nfs_mounts` or `slurm.conf KillWait`.
        result: CARRIED, CHANGED, DEFAULT, LEFT or ASK.
        reason: the option of busbar that has the value, or the reason, or the question.
        where: file and line of the setting; empty if unknown.
    """

    name: str
    result: str
    reason: str = ""
    where: str = ""


@dataclass
class Draft:
    """A site that is not written yet.

    Attributes:
        source: description of what was read, for the first line of ADOPTED.md.
        cluster: name of the cluster.
        hosts: variables of each host by its name, such as `ansible_host`, `hardware` and `slurm_node_features`.
        groups: hosts of each of busbar's groups, in order; an empty group is left out.
        variables: options of all hosts.
        group_variables: options of the hosts of a group.
        notes: what became of each setting.
        comments: lines for the end of a file below group_vars/all, by the name of the file, such as `users`.
        files: further files by their path in the folder of the site.
    """

    source: str
    cluster: str
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    group_variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    comments: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def note(self, name: str, result: str, reason: str = "", where: str = "") -> None:
        """Record what became of a setting; an identical note is recorded once."""
        found = Note(name, result, reason, where)
        if found not in self.notes:
            self.notes.append(found)

    def carry(self, name: str, options: Mapping[str, Any], where: str = "") -> None:
        """Set options for all hosts and record that they cover a setting. Dictionaries are merged."""
        for option, value in options.items():
            old = self.variables.get(option)
            merged = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            self.variables[option] = merged
        self.note(name, CARRIED, ", ".join(options), where)

    def spread(self, option: str, values: Mapping[str, Any]) -> None:
        """Set an option per host: for all hosts if every host has the same value, otherwise in the hosts' variables."""
        values = {host: value for host, value in values.items() if value is not None}
        first = next(iter(values.values()), None)
        if values.keys() == self.hosts.keys() and all(value == first for value in values.values()):
            self.variables[option] = first
            return
        for host, value in values.items():
            self.hosts[host][option] = value

    def lines(self) -> Iterator[str]:
        """Yield the notes as lines for the screen, ordered by result."""
        for result, title in _TITLES.items():
            notes = [each for each in self.notes if each.result == result]
            if notes:
                yield f"{title}:"
                yield from (f"  {each.name}: {_sentence(each)}" for each in notes)

    def write(self, out: Path) -> list[Path]:
        """Write the site into a folder that is missing or empty, and return the paths of its files.

        Raises:
            UsageError: the folder has files already, or cannot be written.
        """
        refuse_filled(out)
        paths = []
        try:
            for place, text in self._texts().items():
                path = out / place
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("x", encoding="utf-8") as file:
                    file.write(text)
                paths.append(path)
        except OSError as exc:
            message = f"{exc.filename or out}: {exc.strerror or exc}"
            raise UsageError(message) from exc
        return paths

    def _texts(self) -> dict[str, str]:
        """Return the texts of all files by their path in the folder of the site."""
        head = f"# From {self.source}. ADOPTED.md lists what was carried over.\n"
        texts = {place: text for place, text in site_files(self.cluster).items() if not place.startswith("inventory/")}
        texts["inventory/hosts.yml"] = head + _yaml(self._inventory())
        by_file: dict[str, dict[str, Any]] = {"cluster": {"cluster_name": self.cluster}}
        for option, value in self.variables.items():
            name = next((name for prefix, name in _FILES.items() if option.startswith(prefix)), "cluster")
            by_file.setdefault(name, {})[option] = value
        for name in [*by_file, *(name for name in self.comments if name not in by_file)]:
            lines = "".join(f"# {line}\n" for line in self.comments.get(name, []))
            texts[f"inventory/group_vars/all/{name}.yml"] = head + _yaml(by_file.get(name, {})) + lines
        for group, options in self.group_variables.items():
            texts[f"inventory/group_vars/{group}.yml"] = head + _yaml(options)
        texts["ADOPTED.md"] = self._report()
        return {**texts, **self.files}

    def _inventory(self) -> dict[str, Any]:
        """Return the content of hosts.yml: variables of a host where it is listed first, groups by name only."""
        children = {group: {"hosts": dict.fromkeys(hosts)} for group, hosts in self.groups.items() if hosts}
        return {"all": {"hosts": {name: options or None for name, options in self.hosts.items()}, "children": children}}

    def _report(self) -> str:
        """Return the text of ADOPTED.md."""
        text = (
            f"# Adopted: {self.cluster}\n\nDraft site from {self.source}. Nothing on the hosts was changed. Answer the "
            "questions, check\nthe tables, then run `busbar provision preflight`.\n"
        )
        for result, title in _TITLES.items():
            rows = [
                f"| {_cell(f'`{each.name}`')} | {_cell(each.reason)} | {_cell(each.where)} |\n"
                for each in self.notes
                if each.result == result
            ]
            if rows:
                column = "option" if result == CARRIED else "reason"
                text += f"\n## {title}\n\n| setting | {column} | file |\n| --- | --- | --- |\n{''.join(rows)}"
        return text


def refuse_filled(out: Path) -> None:
    """Check that a folder for a new site is missing or empty.

    Raises:
        UsageError: it is a file or has files.
    """
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists() or out.is_symlink():
        problem = "is not empty" if out.is_dir() else "is not a folder"
        message = f"{out} {problem}, so nothing was written: name a new folder for the draft"
        raise UsageError(message)


def _sentence(note: Note) -> str:
    return " ".join(filter(None, (note.reason or note.result, f"({note.where})" if note.where else "")))


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


class _Dumper(yaml.SafeDumper):
    """Writes lists indented, no anchors, texts of several lines as blocks, and vaulted values with their tag."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the interface of PyYAML
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        super().increase_indent(flow, indentless=False)


_Dumper.add_representer(Vaulted, lambda dumper, text: dumper.represent_scalar("!vault", str(text), style="|"))
_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def _yaml(content: Mapping[str, Any]) -> str:
    if not content:
        return "---\n"
    return yaml.dump(
        copy.deepcopy(dict(content)),
        Dumper=_Dumper,
        sort_keys=False,
        width=116,
        explicit_start=True,
        allow_unicode=True,
    )
