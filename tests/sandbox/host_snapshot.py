"""Snapshots of a sandbox machine: files with owner, mode and content, packages, accounts, units, mounts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Cluster

__all__ = ["snapshot", "snapshot_differences"]

# Runs on the node, which has Python but no busbar.
PROGRAM = r"""
import hashlib, json, os, stat, subprocess
SKIPPED = ("/proc", "/sys", "/dev", "/run", "/tmp", "/shared")
def entry(path):
    found = os.lstat(path)
    what = f"{stat.filemode(found.st_mode)} {found.st_uid}:{found.st_gid}"
    if stat.S_ISLNK(found.st_mode):
        return f"{what} -> {os.readlink(path)}"
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as stream:
            return f"{what} {hashlib.sha256(stream.read()).hexdigest()[:16]}"
    return what
def walk(top):
    for item in os.scandir(top):
        if item.path in SKIPPED:
            continue
        yield item.path
        if item.is_dir(follow_symlinks=False):
            yield from walk(item.path)
def lines(*words):
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    return sorted(line.strip() for line in done.stdout.splitlines() if line.strip())
def pairs(found):
    return dict(line.split("\t", 1) for line in found)
def units(command, *options):
    return [line.split() for line in lines("systemctl", command, "--no-legend", "--plain", *options)]
print(json.dumps({
    "path": {path: entry(path) for path in walk("/")},
    "package": pairs(lines("dpkg-query", "-W", "-f", "${Package}\t${db:Status-Status} ${Version}\n")),
    "manual": dict.fromkeys(lines("apt-mark", "showmanual"), "manual"),
    "hold": dict.fromkeys(lines("apt-mark", "showhold"), "held"),
    "user": {line.split(":")[0]: line for line in lines("getent", "-s", "files", "passwd")},
    "group": {line.split(":")[0]: line for line in lines("getent", "-s", "files", "group")},
    "unit": {row[0]: row[1] for row in units("list-unit-files")},
    "active": {row[0]: "active" for row in units("list-units", "--type=service,socket,timer", "--state=active")},
    "failed": {row[0]: "failed" for row in units("list-units", "--state=failed")},
    "source": dict.fromkeys(lines("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)"), "known"),
    "sshd": dict(line.split(" ", 1) for line in lines("sshd", "-T") if " " in line),
    "mount": dict.fromkeys(lines("findmnt", "--list", "--noheadings", "--output", "TARGET"), "mounted"),
}))
"""


def snapshot(sandbox: Cluster, node: str) -> dict[str, dict[str, str]]:
    """Return the state of a node, by kind and name."""
    found: dict[str, dict[str, str]] = json.loads(sandbox.exec(node, f"python3 - <<'END'\n{PROGRAM}\nEND").stdout)
    return found


def snapshot_differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return a line for each added, removed or changed item."""
    return [
        f"{kind} {name}: {before[kind].get(name, 'nothing')} => {after[kind].get(name, 'nothing')}"
        for kind in before
        for name in sorted({*before[kind], *after[kind]})
        if before[kind].get(name) != after[kind].get(name)
    ]
