"""`busbar secrets`: lists the secrets of a site, their locations, and the accounts that can read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from busbar.doctor.finding import ERROR, Finding, as_text
from busbar.doctor.host import secret_findings
from busbar.doctor.inventory import secret_folders
from busbar.doctor.secrets import as_table, exposed_secrets, host_secrets, local_secrets
from busbar.run.playbook import Playbook, host_variables
from busbar.run.site import Site, add_run_options

if TYPE_CHECKING:
    import argparse

SOUND, OPEN = 0, 1
AUDIT = """\
Lists each secret of the site: meaning, paths on this host and on the hosts of the cluster, age, and
users other than root who can read it. The files are not read, and nothing is changed. Exit codes: 0 no problem
found, 1 permissions of a secret are too open, or a host could not be checked.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its action."""
    parser = subparsers.add_parser("secrets", help="list secrets and who can read them")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    audit = actions.add_parser("audit", help="list each secret with its paths and readers", description=AUDIT)
    audit.add_argument("--offline", action="store_true", help="do not contact hosts of the cluster")
    audit.add_argument("--json", action="store_true", help="print the result as JSON")
    add_run_options(audit)
    audit.set_defaults(run=_audit)


def _audit(args: argparse.Namespace) -> int:
    """Print secrets and findings, and return the exit code."""
    site = Site(args)
    playbook = site.playbook("preflight")
    hosts = host_variables(Playbook(playbook.path, site.inventory, []))
    folders = secret_folders(hosts, site.folder)
    kept = [each for folder in folders for each in local_secrets(folder)]
    findings = [each for folder in folders for each in secret_findings(folder)]
    if not args.offline:
        run = site.ask(playbook, "--check", "--tags", "secrets_audit", "--skip-tags", "preflight")
        there = host_secrets(run.custom.get("busbar_secrets") or {})
        kept += there
        findings += exposed_secrets(there)
        remedy = "make the host reachable: busbar doctor"
        for failure in run.failures:
            message = " ".join(failure.message.split())
            findings.append(Finding(ERROR, tuple(failure.hosts), failure.task, message, remedy))
    if args.json:
        listed = {"secrets": [each._asdict() for each in kept], "findings": [each._asdict() for each in findings]}
        print(json.dumps(listed, indent=2))
    else:
        print("\n".join(filter(None, (as_table(kept), as_text(findings)))) or "the site has no secrets yet")
    return OPEN if findings else SOUND
