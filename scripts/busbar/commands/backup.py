"""`busbar backup`: verifies the snapshots of the hosts and of the site's folder."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

from busbar.doctor.finding import ERROR, WARNING, Finding
from busbar.doctor.finding import as_text as findings_text
from busbar.errors import UsageError
from busbar.run.site import Site, add_run_options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

__all__ = ["answers_of", "host_findings", "proven_line", "register", "site_findings"]

PROVEN, FAULTY = 0, 1
# Exit code of `busbar-backup verify`: the host has no such snapshot.
NOT_THERE = 3
LATEST = "latest"
SAVE_AGAIN = "busbar provision backup makes a new snapshot"
AGAIN = f"{SAVE_AGAIN}; busbar-backup list, as root there, shows older ones"
VERIFY = """\
Restores the newest snapshot of each host that saves into scratch places and compares it with its own manifest: each
file with its checksum, the state of slurmctld, the rows of all tables in a MariaDB of its own, the entries of the
users' directory in one of its own. restic checks the repository. The secrets in the snapshot of the site's folder are
compared with those in use. Nothing that works is touched or asked. Exit codes: 0 all of it would come back, 1
something would not, or could not be checked.
"""
_ID = re.compile(r"[0-9a-f]{4,64}")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its action."""
    parser = subparsers.add_parser("backup", help="whether the backups bring everything back")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    verify = actions.add_parser("verify", help="restore snapshots into scratch places", description=VERIFY)
    verify.add_argument("snapshot", nargs="?", default=LATEST, help="its id (default: the newest of each host)")
    verify.add_argument("--json", action="store_true", help="as data")
    add_run_options(verify)
    verify.set_defaults(run=_verify)


def _verify(args: argparse.Namespace) -> int:
    """Print the verified snapshots and the findings, and return the exit code."""
    if args.snapshot != LATEST and not _ID.fullmatch(args.snapshot):
        message = f"{args.snapshot!r} is no id of a snapshot: give four hexadecimal digits or more, or nothing"
        raise UsageError(message)
    site = Site(args)
    # In check mode lookups do not create missing secrets; the verification runs anyway.
    options = [
        "--check",
        "--tags",
        "backup_verify",
        "--skip-tags",
        "preflight",
        "-e",
        f"backup_snapshot={args.snapshot}",
    ]
    run = site.ask(site.playbook("backup"), *options)
    told = {host: each for host, each in (run.custom.get("busbar_backup") or {}).items() if each}
    folder = run.custom.get("busbar_backup_site") or {}
    remedy = "correct what it names, or see that the host can be reached: busbar doctor"
    findings = [
        Finding(ERROR, tuple(each.hosts), each.task, " ".join(each.message.split()), remedy) for each in run.failures
    ]
    findings += host_findings(told, args.snapshot)
    # A chosen snapshot belongs to one host.
    if args.snapshot == LATEST and told:
        findings += site_findings(folder)
    proven = answers_of(told)
    if args.json:
        print(json.dumps({"proven": proven, "findings": [each._asdict() for each in findings]}, indent=2))
    else:
        lines = [proven_line(host, each) for host, each in proven.items()]
        print("\n".join([*lines, *([findings_text(findings)] if findings else [])]) or "nothing was compared")
    return PROVEN if proven and all(each.severity != ERROR for each in findings) else FAULTY


def answers_of(told: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the results of the hosts whose snapshot is complete."""
    return {host: json.loads(each["said"]) for host, each in told.items() if int(each["rc"]) == 0}


def host_findings(told: Mapping[str, Mapping[str, Any]], wanted: str) -> Iterator[Finding]:
    """Yield the problems of the hosts' snapshots; a chosen snapshot belongs to one host."""
    others = {host for host, each in told.items() if wanted != LATEST and int(each["rc"]) == NOT_THERE}
    for host, each in told.items():
        if int(each["rc"]) and (host not in others or others == set(told)):
            words = " ".join(str(each["fault"]).split()).removeprefix("busbar-backup: ")
            yield Finding(ERROR, (host,), "backup", words or f"busbar-backup ended with {each['rc']}", AGAIN)


def site_findings(site: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the files that the snapshot of the site's folder lacks, or that the snapshot does not exist."""
    if not site.get("there"):
        problem = "secrets, inventory and reports are in no snapshot, and without secrets none can be opened"
        yield Finding(WARNING, (), "backup_site_folder", problem, "docs/backup.md says what to switch on, or to copy")
        return
    if not site.get("ready"):
        problem = "restic is not installed here, so the snapshot of the site's folder was not looked at"
        yield Finding(ERROR, ("localhost",), "restic", problem, "apt install restic")
        return
    for fault in site["faults"]:
        yield Finding(ERROR, ("localhost",), "the site's folder", " ".join(str(fault).split())[-600:], AGAIN)
    for line in site["differing"]:
        if "Only in ." in line:
            name = line.removeprefix("Only in .").replace(": ", "/", 1).lstrip("/")
            problem = f"secrets/{name} is not in the snapshot of the site's folder"
        elif line.startswith("Only in "):
            # Files in the snapshot that were removed here since are not a problem.
            continue
        else:
            words = str(line).split()
            name = words[1].removeprefix("./") if line.startswith("Files ") else line
            problem = f"secrets/{name} is another one than in the snapshot of the site's folder"
        yield Finding(ERROR, ("localhost",), "the site's folder", problem, SAVE_AGAIN)


def proven_line(host: str, each: Mapping[str, Any]) -> str:
    """Return the line for a complete snapshot."""
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(each["made_at"]))
    counts = [f"{each['files']} files"]
    if each.get("tables"):
        counts.append(f"{each['rows']} rows of {each['tables']} tables")
    if each.get("entries"):
        counts.append(f"{each['entries']} users' entries")
    parts = ", ".join(each.get("parts", []))
    release = f", Slurm {each['slurm_version']}" if each.get("slurm_version") else ""
    return f"{host}: snapshot {each['snapshot']} of {made} UTC{release}: {', '.join(counts)} as saved ({parts})"
