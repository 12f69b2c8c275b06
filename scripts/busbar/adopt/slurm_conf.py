"""Read slurm.conf and its companion files as Slurm reads them (src/common/parse_config.c and read_config.c)."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.busbar.cluster.plugins.module_utils.slurm.hostlist import expand_hosts
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.conf_keys import SLURM_CONF_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NODE_KEYS = (
    "NodeName BcastAddr Boards CoreSpecCount CoresPerSocket CPUs CPUSpecList CpuBind Feature Features Gres GresConf "
    "MemSpecLimit NodeAddr NodeHostname Parameters Port Procs RealMemory Reason RestrictedCoresPerGPU Sockets "
    "SocketsPerBoard State SuspendTime ThreadsPerCore TmpDisk Topology TRESWeights Weight"
)
PARTITION_KEYS = (
    "PartitionName AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind DefCpuPerGPU DefMemPerCPU "
    "DefMemPerGPU DefMemPerNode Default DefaultTime DenyAccounts DenyQos DisableRootJobs ExclusiveUser ExclusiveTopo "
    "Exclusive GraceTime Hidden LLN MaxCPUsPerNode MaxCPUsPerSocket MaxMemPerCPU MaxMemPerNode MaxTime MaxNodes "
    "MinNodes Nodes OverSubscribe OverTimeLimit PowerDownOnIdle PreemptMode Priority PriorityJobFactor PriorityTier "
    "QOS RootOnly ReqResv ResumeTimeout SelectTypeParameters Shared State SuspendTime SuspendTimeout Topology "
    "TRESBillingWeights"
)
# Keys of the lines that describe an object; the first key begins the line.
_LINES = {
    "NodeName": _NODE_KEYS,
    "PartitionName": PARTITION_KEYS,
    "NodeSet": "NodeSet Nodes Feature",
    "DownNodes": "DownNodes State Reason",
    "FrontendName": "FrontendName FrontendAddr Port Reason State AllowGroups AllowUsers DenyGroups DenyUsers",
}
_LINE_KEYS = {kind: {key.lower(): key for key in keys.split()} for kind, keys in _LINES.items()}
_SYNONYMS = {"Features": "Feature", "Procs": "CPUs", "Shared": "OverSubscribe"}
# If these keys are repeated, Slurm 24.05 and newer use all lines, older releases only the last one.
_SEVERAL = {"Prolog", "Epilog", "PrologSlurmctld", "EpilogSlurmctld"}
# Defunct keys that Slurm ignores or that SlurmctldHost replaced.
_KEYS = {key.lower(): key for key in (*SLURM_CONF_KEYS, "SlurmctldHost")}
_PAIR = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"([^"]*)"|(\S+))(?=\s|$)')
_INCLUDE = re.compile(r"include\s+(\S+)\s*$", re.IGNORECASE)
_COMMENT = re.compile(r"((?:[^\\#]|\\.)*)#.*", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\s*$")
_HOST = re.compile(r"([^()]+)(?:\(([^()]+)\))?")
_DEEPEST = 20


class Setting(NamedTuple):
    """A value, and the file and line that set it."""

    value: str
    where: str


@dataclass
class SlurmConf:
    """The content of a slurm.conf with its included files.

    Attributes:
        path: the file.
        keys: the keys that are not lines of objects, by their documented name; several values are lines.
        nodes: the effective keys of each NodeName, DEFAULT lines applied.
        partitions: the effective keys of each PartitionName, DEFAULT lines applied.
        sets: the keys of each NodeSet.
        down: the keys of each DownNodes line.
        frontends: the names of FrontendName lines.
        controllers: name and address of each SlurmctldHost, the primary first.
        includes: the included files.
        errors: lines that Slurm rejects, with file and line.
    """

    path: str
    keys: dict[str, Setting] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    partitions: dict[str, dict[str, str]] = field(default_factory=dict)
    sets: dict[str, dict[str, str]] = field(default_factory=dict)
    down: list[dict[str, str]] = field(default_factory=list)
    frontends: list[str] = field(default_factory=list)
    controllers: list[tuple[str, str]] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def value(self, key: str, default: str = "") -> str:
        """Return the value of a key."""
        return self.keys[key].value if key in self.keys else default

    def members(self, text: str) -> list[str]:
        """Return the nodes of a partition's Nodes: ALL, node sets and host lists, in the order of the node lines."""
        found: set[str] = set()
        for name in expand_hosts(text):
            if name.upper() == "ALL":
                found |= set(self.nodes)
            elif name in self.sets:
                one = self.sets[name]
                found |= set(expand_hosts(one.get("Nodes", "")))
                wanted = set(one.get("Feature", "").split(",")) - {""}
                found |= {node for node, keys in self.nodes.items() if wanted & set(keys.get("Feature", "").split(","))}
            else:
                found.add(name)
        return [name for name in self.nodes if name in found]


def split_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not empty: without comment, continued lines joined.

    Slurm removes the comment before it looks for the backslash, so a backslash in a comment continues nothing, and it
    joins lines without removing the blanks at the start of the next one.
    """
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first or number
        matched = _COMMENT.fullmatch(line)
        bare = matched[1] if matched else line
        continued = _CONTINUED.search(bare)
        joined += bare[: continued.end(1)] if continued else bare
        if continued:
            continue
        if joined.strip():
            yield first, re.sub(r"\\(.)", r"\1", joined)
        joined, first = "", 0
    if joined.strip():
        yield first, joined


def pairs_of(line: str) -> tuple[list[tuple[str, str]], str]:
    """Return the keys and values of a line, and the rest that is not `Key=value`."""
    pairs, place = [], 0
    while matched := _PAIR.match(line, place):
        pairs.append((matched[1], matched[3] if matched[2] is None else matched[2]))
        place = matched.end()
    return pairs, line[place:].strip()


def read_pairs(text: str) -> list[dict[str, str]]:
    """Return the keys and values of each line of gres.conf, cgroup.conf, topology.conf and similar files."""
    return [dict(pairs_of(line)[0]) for _, line in split_lines(text)]


def quoted(value: str) -> str:
    """Return a value as slurm.conf needs it: quoted if it has blanks, '#' escaped."""
    text = value.replace("\\", "\\\\").replace("#", "\\#")
    return f'"{text}"' if not text or re.search(r"\s", text) else text


def read_slurm_conf(files: Mapping[str, str], path: str) -> SlurmConf:
    """Return the content of a slurm.conf.

    Args:
        files: texts by path.
        path: path of the slurm.conf.
    """
    conf = SlurmConf(path)
    defaults: dict[str, dict[str, str]] = {"NodeName": {}, "PartitionName": {}}
    _read_file(conf, files, path, defaults, 0)
    if not conf.controllers:  # ControlMachine was replaced in Slurm 18.08, and some files still have it.
        pairs = (("ControlMachine", "ControlAddr"), ("BackupController", "BackupAddr"))
        conf.controllers = [(conf.value(name), conf.value(address)) for name, address in pairs if name in conf.keys]
    return conf


def _read_file(
    conf: SlurmConf, files: Mapping[str, str], path: str, defaults: dict[str, dict[str, str]], depth: int
) -> None:
    """Add the lines of a file and of those that it includes."""
    for number, line in split_lines(files[path]):
        where = f"{path}:{number}"
        included = _INCLUDE.match(line)
        if included:
            name = included[1].replace("%c", conf.value("ClusterName").lower())
            # Slurm takes a relative path from the folder of slurm.conf, also in an included file.
            name = posixpath.normpath(posixpath.join(posixpath.dirname(conf.path), name))
            if name not in files or depth > _DEEPEST:
                conf.errors.append(f"{where}: cannot include {name}: the file is missing, or includes itself")
                continue
            conf.includes.append(name)
            _read_file(conf, files, name, defaults, depth + 1)
            continue
        pairs, rest = pairs_of(line)
        if rest or not pairs:
            conf.errors.append(f"{where}: {(rest or line).strip()!r} is not Key=value")
        if pairs:
            _read_line(conf, pairs, where, defaults)


def _read_line(conf: SlurmConf, pairs: list[tuple[str, str]], where: str, defaults: dict[str, dict[str, str]]) -> None:
    """Add one line."""
    kind = next((kind for kind in _LINES if pairs[0][0].lower() == kind.lower()), "")
    if not kind:
        for key, value in pairs:
            name = _KEYS.get(key.lower())
            if name == "SlurmctldHost":
                matched = _HOST.fullmatch(value)
                conf.controllers.append((matched[1], matched[2] or "") if matched else (value, ""))
            elif name:
                before = f"{conf.value(name)}\n" if name in _SEVERAL and name in conf.keys else ""
                conf.keys[name] = Setting(before + value, where)
            else:
                conf.errors.append(f"{where}: {key} is not a key of slurm.conf")
        return
    said = {}
    for key, value in pairs:
        name = _LINE_KEYS[kind].get(key.lower())
        if name is None:
            conf.errors.append(f"{where}: {key} is not a key of a {kind} line")
        else:
            said[_SYNONYMS.get(name, name)] = value
    try:
        _add(conf, kind, said, defaults.get(kind, {}))
    except ValueError as exc:
        conf.errors.append(f"{where}: {exc}")


def _add(conf: SlurmConf, kind: str, said: dict[str, str], default: dict[str, str]) -> None:
    """Add an object; a DEFAULT line adds to the earlier ones.

    Raises:
        ValueError: a host list is malformed.
    """
    name = said.pop(kind)
    if kind == "DownNodes":
        conf.down.append({"DownNodes": name, **said})
    elif kind == "NodeSet":
        conf.sets[name] = said
    elif kind == "FrontendName":
        conf.frontends += expand_hosts(name)
    elif name.upper() == "DEFAULT":
        default.update(said)
    elif kind == "PartitionName":
        for one in expand_hosts(name):
            conf.partitions[one] = {**default, **said}
    else:
        names = expand_hosts(name)
        lists: dict[str, list[str]] = {
            key: expand_hosts(said[key]) for key in ("NodeAddr", "NodeHostname", "Port") if key in said
        }
        for key, values in lists.items():
            if len(values) not in {1, len(names)}:
                message = f"NodeName={name}: {key} has {len(values)} values for {len(names)} nodes"
                raise ValueError(message)
        for place, node in enumerate(names):
            own = {key: values[place if len(values) > 1 else 0] for key, values in lists.items()}
            conf.nodes[node] = {**default, **said, **own}


def shape(node: Mapping[str, str]) -> dict[str, int]:
    """Return the processors and the memory of a node as slurmctld computes them from its line."""

    def number(key: str, default: int) -> int:
        matched = re.match(r"\d+", node.get(key, ""))
        return max(1, int(matched[0])) if matched else default

    boards, cores, threads = number("Boards", 1), number("CoresPerSocket", 1), number("ThreadsPerCore", 1)
    cpus, whole = number("CPUs", 0), cores * threads
    if "SocketsPerBoard" in node:
        sockets = boards * number("SocketsPerBoard", 1)
    elif "Sockets" in node:
        sockets = number("Sockets", 1)
    else:
        sockets = cpus // whole if cpus >= whole and cpus % whole == 0 else boards
    if cpus not in {sockets, sockets * cores, sockets * whole}:
        cpus = sockets * whole
    return {
        "sockets": sockets,
        "cores_per_socket": cores,
        "threads_per_core": threads,
        "cpus": cpus,
        "memory_mb": number("RealMemory", 1),
    }


def differing(copies: Mapping[str, SlurmConf], first: str) -> Iterator[tuple[str, str]]:
    """Yield each host whose slurm.conf differs from the one on `first`, with the differences, one entry per value."""
    wanted = _flat(copies[first])
    for host, conf in copies.items():
        found = _flat(conf)
        for key in sorted(wanted.keys() | found.keys()):
            if wanted.get(key) != found.get(key):
                yield host, f"{key} is {found.get(key, 'not set')}, on {first} {wanted.get(key, 'not set')}"


def _flat(conf: SlurmConf) -> dict[str, str]:
    """Return all settings by a printable name."""
    objects: Iterable[tuple[str, Mapping[str, dict[str, str]]]] = (
        ("NodeName", conf.nodes),
        ("PartitionName", conf.partitions),
        ("NodeSet", conf.sets),
    )
    flat = {key: setting.value for key, setting in conf.keys.items()}
    flat |= {
        f"{kind}={name} {key}": value
        for kind, each in objects
        for name, keys in each.items()
        for key, value in keys.items()
    }
    flat |= {f"DownNodes={each['DownNodes']}": " ".join(each.values()) for each in conf.down}
    pairs = zip_longest(conf.controllers, range(len(conf.controllers)))
    return flat | {f"SlurmctldHost[{place}]": " ".join(host) for host, place in pairs}
