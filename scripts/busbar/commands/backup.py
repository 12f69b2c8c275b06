"""`busbar backup`: verifies the snapshots of hosts and of the site folder."""

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

PROVEN, FAULTY = 0, 1
# Exit code of `busbar-backup verify` if the host has no such snapshot.
NO_SUCH_SNAPSHOT = 3
LATEST = "latest"
SAVE_AGAIN = "create a new snapshot: busbar provision backup"
AGAIN = f"{SAVE_AGAIN}; list older snapshots as root on the host: busbar-backup list"
VERIFY = """\
Restores the newest snapshot of each host with backups to temporary locations and compares it with its manifest: each
file with its checksum, the state of slurmctld, the rows of all tables in a separate MariaDB, and the entries of the
LDAP directory in a separate slapd. restic checks the repository. The secrets in the snapshot of the site folder are
compared with the secrets in use. Running services are not touched. Exit codes: 0 everything can be restored, 1
something cannot be restored, or could not be checked.
"""
_ID = re.compile(r"[0-9a-f]{4,64}")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its action."""
    parser = subparsers.add_parser("backup", help="verify that the backups can be restored")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    verify = actions.add_parser("verify", help="restore snapshots to temporary locations", description=VERIFY)
    verify.add_argument(
        "snapshot", nargs="?", default=LATEST, help="ID of the snapshot (default: the newest of each host)"
    )
    verify.add_argument("--json", action="store_true", help="print the result as JSON")
    add_run_options(verify)
    verify.set_defaults(run=_verify)


def _verify(args: argparse.Namespace) -> int:
    """Print the verified snapshots and the findings, and return the exit code."""
    if args.snapshot != LATEST and not _ID.fullmatch(args.snapshot):
        message = f"{args.snapshot!r} is not a snapshot ID: use at least four hexadecimal digits, or omit it"
        raise UsageError(message)
    site = Site(args)
    # In check mode lookups do not create missing secrets; the tasks of the verification run even in check mode.
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
    answers = {host: each for host, each in (run.custom.get("busbar_backup") or {}).items() if each}
    folder = run.custom.get("busbar_backup_site") or {}
    remedy = "fix the reported error, or make the host reachable: busbar doctor"
    findings = [
        Finding(ERROR, tuple(each.hosts), each.task, " ".join(each.message.split()), remedy) for each in run.failures
    ]
    findings += host_findings(answers, args.snapshot)
    # A snapshot ID belongs to one host, so the site folder is not compared.
    if args.snapshot == LATEST and answers:
        findings += site_findings(folder)
    proven = parsed_answers(answers)
    if args.json:
        print(json.dumps({"proven": proven, "findings": [each._asdict() for each in findings]}, indent=2))
    else:
        lines = [verified_line(host, each) for host, each in proven.items()]
        print("\n".join([*lines, *([findings_text(findings)] if findings else [])]) or "nothing was compared")
    return PROVEN if proven and all(each.severity != ERROR for each in findings) else FAULTY


def parsed_answers(answers: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the results of the hosts whose snapshot is complete."""
    return {host: json.loads(each["output"]) for host, each in answers.items() if int(each["rc"]) == 0}


def host_findings(answers: Mapping[str, Mapping[str, Any]], wanted: str) -> Iterator[Finding]:
    """Yield the problems with the hosts' snapshots; only one host has the snapshot with a given ID."""
    others = {host for host, each in answers.items() if wanted != LATEST and int(each["rc"]) == NO_SUCH_SNAPSHOT}
    for host, each in answers.items():
        if int(each["rc"]) and (host not in others or others == set(answers)):
            words = " ".join(str(each["fault"]).split()).removeprefix("busbar-backup: ")
            yield Finding(ERROR, (host,), "backup", words or f"busbar-backup failed with exit code {each['rc']}", AGAIN)


def site_findings(site: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding for each file that the site folder's snapshot lacks, or for a missing snapshot."""
    if not site.get("there"):
        problem = "no snapshot contains the secrets, inventory or reports; without the secrets, none can be decrypted"
        yield Finding(
            WARNING,
            (),
            "backup_site_folder",
            problem,
            "enable the backup of the site folder, or copy it: docs/backup.md",
        )
        return
    if not site.get("ready"):
        problem = "restic is not installed, so the snapshot of the site folder was not checked"
        yield Finding(ERROR, ("localhost",), "restic", problem, "apt install restic")
        return
    for fault in site["faults"]:
        yield Finding(ERROR, ("localhost",), "the site folder", " ".join(str(fault).split())[:600], AGAIN)
    for line in site["differing"]:
        if "Only in ." in line:
            name = line.removeprefix("Only in .").replace(": ", "/", 1).lstrip("/")
            problem = f"secrets/{name} is not in the snapshot of the site folder"
        elif line.startswith("Only in "):
            # Files that were removed after the snapshot are not a problem.
            continue
        else:
            words = str(line).split()
            name = words[1].removeprefix("./") if line.startswith("Files ") else line
            problem = f"secrets/{name} differs from the snapshot of the site folder"
        yield Finding(ERROR, ("localhost",), "the site folder", problem, SAVE_AGAIN)


def verified_line(host: str, each: Mapping[str, Any]) -> str:
    """Return the line for a complete snapshot."""
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(each["made_at"]))
    counts = [f"{each['files']} files"]
    if each.get("tables"):
        counts.append(f"{each['rows']} rows of {each['tables']} tables")
    if each.get("entries"):
        counts.append(f"{each['entries']} users' entries")
    parts = ", ".join(each.get("parts", []))
    release = f", Slurm {each['slurm_version']}" if each.get("slurm_version") else ""
    return f"{host}: snapshot {each['snapshot']} from {made} UTC{release}: {', '.join(counts)} as saved ({parts})"
