"""`busbar doctor`: what is wrong with provisioning host, inventory and cluster, with what to type."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import is_advice
from ansible_collections.busbar.cluster.plugins.module_utils.health.diagnosis import firing_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.inventory_yaml import yaml_problems

from busbar.commands.provision import add_run_options, ask_passwords, choose_inventory, own_folder, prompting_options
from busbar.doctor.finding import ERROR, WARNING, Finding, as_json, as_text, findings_of
from busbar.doctor.host import host_findings, is_busy, site_findings
from busbar.doctor.inventory import key_files, secret_folders, unresolved
from busbar.paths import collection
from busbar.run.display import PlainDisplay
from busbar.run.events import Run
from busbar.run.playbook import Playbook, host_variables, hosts_counter, run_playbook
from busbar.sandbox.option import chosen

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["INTERRUPTED", "ask_cluster", "cluster_findings", "register"]

HEALTHY, SICK, UNKNOWN, INTERRUPTED = 0, 1, 2, 130
DESCRIPTION = """\
Looks at this host (versions, SSH, secrets, disk, interrupted runs, the last validation), at the inventory, and, unless
--offline is given, at all hosts of the cluster at the same time, and lists what is wrong with what to type. Nothing is
changed, and no log is kept. Exit codes: 0 nothing was found, 1 something was, 2 not everything could be looked at.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("doctor", help="what is wrong, and what to type", description=DESCRIPTION)
    parser.add_argument("--offline", action="store_true", help="contact no host of the cluster")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the list (default: text)")
    add_run_options(parser)
    parser.set_defaults(run=_doctor)


def _doctor(args: argparse.Namespace) -> int:
    """Print the findings; returns the exit code."""
    inventory, _ = choose_inventory(args)
    path = collection() / "playbooks" / "preflight.yml"
    broken = [_unreadable(problem) for problem in yaml_problems(inventory, path)]
    site = own_folder(inventory[0])
    playbook = Playbook(path, inventory, [], {})
    hosts = {} if broken else host_variables(playbook)
    findings = [
        *host_findings(site, sandbox=chosen(args), private_keys=key_files(hosts)),
        *site_findings(site, inventory, secret_folders(hosts, site)),
        *broken,
        *unresolved(hosts),
    ]
    code = HEALTHY
    if not broken:
        # In check mode no lookup makes a secret that is missing, and the inventory is not locked.
        skipped = "preflight,doctor_hosts" if args.offline else "preflight"
        playbook.options = [
            "--check",
            "--tags",
            "doctor",
            "--skip-tags",
            skipped,
            *args.options,
            *prompting_options(args),
        ]
        playbook.passwords = ask_passwords(args)
        run, returned, interrupted = ask_cluster(playbook)
        if interrupted:
            return INTERRUPTED
        found = list(cluster_findings(run, busy=bool(is_busy(inventory))))
        findings += found
        code = UNKNOWN if returned and not found else HEALTHY
    if args.format == "json":
        print(as_json(findings))
    elif findings:
        print(as_text(findings))
    else:
        print("nothing is wrong")
    return code or (SICK if findings else HEALTHY)


def ask_cluster(playbook: Playbook) -> tuple[Run, int, bool]:
    """Run the playbook, its progress beside the output; what it prints otherwise is kept nowhere."""
    display = PlainDisplay(sys.stderr)
    run = Run(display, hosts_counter(playbook))
    with tempfile.TemporaryDirectory(prefix="busbar-doctor-") as folder, display:
        returned, interrupted = run_playbook(playbook, run, Path(folder) / "log")
    return run, returned, interrupted


def _unreadable(problem: str) -> Finding:
    return Finding(ERROR, (), "inventory", problem, "correct the file")


def cluster_findings(run: Run, *, busy: bool) -> Iterator[Finding]:
    """Yield what a run of playbooks/preflight.yml with the tag doctor found, and what kept it from looking.

    Args:
        run: what was seen.
        busy: whether another run works on the inventory, whose reservation then is no fault.
    """
    told: dict[str, Any] = run.custom
    for key, severity in (
        ("busbar_doctor_inventory", ERROR),
        ("busbar_doctor_nodes", ERROR),
        ("busbar_doctor_advice", WARNING),
        ("busbar_doctor_hosts", ERROR),
        ("busbar_doctor_reservations", WARNING),
    ):
        if not (busy and key == "busbar_doctor_reservations"):
            found = told.get(key) or []
            yield from findings_of(severity, (each for each in found if not is_advice(each)))
            yield from findings_of(WARNING, filter(is_advice, found))
    for host, answer in (told.get("busbar_doctor_alerts") or {}).items():
        alerts = ((answer or {}).get("data") or {}).get("alerts")
        if alerts is None:
            remedy = f"on {host}: journalctl -u prometheus -n 50; systemctl restart prometheus"
            yield Finding(ERROR, (host,), "prometheus", "Prometheus does not tell its alerts", remedy)
        else:
            yield from findings_of(WARNING, firing_problems(host, alerts))
    for failure in run.failures:
        remedy = "correct what it names; busbar provision preflight -v shows more"
        yield Finding(ERROR, tuple(failure.hosts), failure.task, " ".join(failure.message.split()), remedy)
    for error in run.errors if not run.tasks else []:
        yield Finding(ERROR, (), "ansible", " ".join(error.split()), "correct what it names")
