"""Compares a cluster with what `busbar adopt cluster` recorded before takeover."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from busbar.errors import UsageError

from .accounting import read_accounting
from .people import passwd

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from .cluster_source import HostReading

RECORD = "adopted.json"
# Values of `scontrol show config` that change without a change of the configuration.
_VOLATILE = re.compile(r"^(BOOT_TIME|NEXT_JOB_ID|HASH_VAL|Slurmctld\(\w+\)|Configuration data|SLURM_CONF|\w*Pass\b)")
# Keys of nodes and partitions that belong to the configuration, not to the jobs.
_NODE = (
    *("CPUTot", "CPUEfctv", "CoresPerSocket", "Sockets", "Boards", "ThreadsPerCore", "RealMemory", "MemSpecLimit"),
    *("CoreSpecCount", "TmpDisk", "Weight", "Gres", "AvailableFeatures", "NodeAddr", "NodeHostName", "Port"),
    "Partitions",
)
# The takeover adds this parameter and this user; ADOPTED.md lists them.
_ADDED_PARAMETER = "enable_configless"
_ADDED_USER = "busbar-validation"
_FIRST_USER = 1000
_PAIR = re.compile(r"(\w+)=(\S*)")


def record_of(hosts: Mapping[str, HostReading]) -> dict[str, dict[str, str]]:
    """Return what must not change, by part and name."""
    parts: dict[str, dict[str, str]] = {}
    for host, reading in hosts.items():
        commands = reading.commands
        for line in commands.get("scontrol-config", "").splitlines():
            key, found, value = line.partition("=")
            if found and not _VOLATILE.match(line):
                values = [each for each in value.strip().split(",") if each != _ADDED_PARAMETER]
                text = ",".join(values) or "(null)"
                parts.setdefault("scontrol show config", {}).setdefault(key.strip(), text)
        _objects(parts, "partitions", commands.get("scontrol-partitions", ""), "PartitionName", ())
        _objects(parts, "nodes", commands.get("scontrol-nodes", ""), "NodeName", _NODE)
        _accounting(parts, commands.get("sacctmgr-dump", ""), commands.get("sacctmgr-qos", ""))
        _people(parts, host, reading)
        for line in commands.get("mounts", "").splitlines():
            target, _, rest = line.partition(" ")
            parts.setdefault("mounts", {})[f"{target} on {host}"] = rest
        for name, text in commands.items():
            if name.startswith("hostkey-") or name == "sha256-munge.key":
                parts.setdefault("keys", {})[f"{name} on {host}"] = " ".join(text.split()[:2])
    return parts


def _objects(parts: dict[str, dict[str, str]], part: str, text: str, name: str, keys: Collection[str]) -> None:
    """Add the keys of each line of `scontrol show … -o`; all of them if `keys` is empty."""
    for line in text.splitlines():
        pairs = dict(_PAIR.findall(line))
        for key, value in pairs.items():
            # Nodes has the members of NodeSets.
            if name in pairs and key not in {name, "NodeSets"} and (key in keys or not keys):
                # Their order is that of the lines in slurm.conf.
                value = ",".join(sorted(value.split(","))) if key == "Partitions" else value  # noqa: PLW2901
                parts.setdefault(part, {}).setdefault(f"{pairs[name]} {key}", value)


def _people(parts: dict[str, dict[str, str]], host: str, reading: HostReading) -> None:
    """Add the UIDs of users on a host and their number of keys."""
    for text in (reading.files.get("/etc/passwd", ""), reading.commands.get("getent-passwd", "")):
        for account in passwd(text):
            if account.uid >= _FIRST_USER or account.name in {"slurm", "root"}:
                value = f"{account.uid}:{account.gid} {account.home} {account.shell}"
                parts.setdefault("UIDs", {})[f"{account.name} on {host}"] = value
    for line in reading.commands.get("authorized-keys", "").splitlines():
        user, _, count = line.partition(" ")
        parts.setdefault("keys", {})[f"authorized keys of {user} on {host}"] = count


def _accounting(parts: dict[str, dict[str, str]], dump: str, qos: str) -> None:
    """Add QOS, limits and associations."""
    if not dump or "limits" in parts:
        return
    found = read_accounting(dump, qos)
    entries: dict[str, Mapping[str, str]] = {f"cluster {found.cluster.get('Cluster', '')}": found.cluster}
    entries |= {f"QOS {name}": said for name, said in found.qos.items()}
    entries |= {f"account {name}": said for name, said in found.accounts.items()}
    parts["limits"] = {f"{name} {key}": value for name, said in entries.items() for key, value in said.items()}
    parts["associations"] = {
        " ".join(("user", name, "in", each["Account"], each.get("Partition", ""), key)).replace("  ", " "): value
        for name, associations in found.users.items()
        if name != _ADDED_USER
        for each in associations
        for key, value in each.items()
    }


def read_record(out: Path) -> dict[str, Any]:
    """Return the record in the folder of an adopted site.

    Raises:
        UsageError: the record is missing or damaged.
    """
    path = out / RECORD
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found.get("parts"), dict) or not isinstance(found.get("places"), dict):
            raise TypeError  # noqa: TRY301 - reported below
    except (OSError, ValueError, TypeError, AttributeError) as exc:
        message = f"{path} cannot be read: name the folder that `busbar adopt cluster` wrote"
        raise UsageError(message) from exc
    return dict(found)


def differences(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield each difference with part, name, old and new value."""
    for part in before.keys() | after.keys():
        old, new = before.get(part, {}), after.get(part, {})
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                yield f"{part}: {name}: {old.get(name, 'missing')} -> {new.get(name, 'missing')}"
