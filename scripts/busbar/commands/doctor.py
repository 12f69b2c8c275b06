"""`busbar doctor`: finds problems with the provisioning host, the inventory and the cluster, each with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.common.problems import is_advice
from ansible_collections.busbar.cluster.plugins.module_utils.health.host_diagnosis import firing_problems
from ansible_collections.busbar.cluster.plugins.plugin_utils.inventory_yaml import yaml_problems

from busbar.doctor.finding import ERROR, WARNING, Finding, as_json, as_text, findings_of
from busbar.doctor.host import host_findings, is_busy, site_findings
from busbar.doctor.inventory import key_files, secret_folders, unresolved
from busbar.paths import collection
from busbar.run.playbook import Playbook, host_variables
from busbar.run.site import Site, add_run_options
from busbar.sandbox.option import chosen

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from busbar.run.events import Run

HEALTHY, SICK, UNKNOWN = 0, 1, 2
DESCRIPTION = """\
Checks this host (versions, SSH, secrets, disk, interrupted runs, the last validation), the inventory, and, unless
--offline is set, all hosts of the cluster in parallel. It lists each problem with the command that fixes it. Nothing is
changed, and no log is kept. Exit codes: 0 no problem found, 1 problems found, 2 some checks could not run.
"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "doctor", help="list problems and the commands that fix them", description=DESCRIPTION
    )
    parser.add_argument("--offline", action="store_true", help="do not contact hosts of the cluster")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="format of the list (default: text)")
    add_run_options(parser)
    parser.set_defaults(run=_doctor)


def _doctor(args: argparse.Namespace) -> int:
    """Print the findings and return the exit code."""
    site = Site(args)
    path = collection() / "playbooks" / "preflight.yml"
    broken = [_unreadable(problem) for problem in yaml_problems(site.inventory, path)]
    hosts = {} if broken else host_variables(Playbook(path, site.inventory, []))
    findings = [
        *host_findings(site.folder, sandbox=chosen(args), private_keys=key_files(hosts)),
        *site_findings(site.folder, site.inventory, secret_folders(hosts, site.folder)),
        *broken,
        *unresolved(hosts),
    ]
    code = HEALTHY
    if not broken:
        # In check mode lookups do not create missing secrets, and the inventory is not locked.
        skipped = "preflight,doctor_hosts" if args.offline else "preflight"
        run = site.ask(site.playbook("preflight"), "--check", "--tags", "doctor", "--skip-tags", skipped)
        found = list(cluster_findings(run, busy=bool(is_busy(site.inventory))))
        findings += found
        code = UNKNOWN if run.returned and not found else HEALTHY
    if args.format == "json":
        print(as_json(findings))
    elif findings:
        print(as_text(findings))
    else:
        print("no problems found")
    return code or (SICK if findings else HEALTHY)


def _unreadable(problem: str) -> Finding:
    return Finding(ERROR, (), "inventory", problem, "correct the file")


def cluster_findings(run: Run, *, busy: bool) -> Iterator[Finding]:
    """Yield the findings from playbooks/preflight.yml with the tag doctor, and the errors that interrupted it.

    Args:
        run: the finished run.
        busy: whether another run uses the inventory, whose reservation is then expected.
    """
    answers: dict[str, Any] = run.custom
    for key, severity in (
        ("busbar_doctor_inventory", ERROR),
        ("busbar_doctor_nodes", ERROR),
        ("busbar_doctor_hosts", ERROR),
        ("busbar_doctor_reservations", WARNING),
    ):
        if not (busy and key == "busbar_doctor_reservations"):
            found = answers.get(key) or []
            yield from findings_of(severity, (each for each in found if not is_advice(each)))
            yield from findings_of(WARNING, filter(is_advice, found))
    for host, answer in (answers.get("busbar_doctor_alerts") or {}).items():
        alerts = ((answer or {}).get("data") or {}).get("alerts")
        if alerts is None:
            remedy = f"on {host}: journalctl -u prometheus -n 50; systemctl restart prometheus"
            yield Finding(ERROR, (host,), "prometheus", "Prometheus does not return its alerts", remedy)
        else:
            yield from findings_of(WARNING, firing_problems(host, alerts))
    for failure in run.failures:
        remedy = "fix the reported problem; busbar provision preflight -v shows more"
        yield Finding(ERROR, tuple(failure.hosts), failure.task, " ".join(failure.message.split()), remedy)
    for error in run.errors if not run.tasks else []:
        yield Finding(ERROR, (), "ansible", " ".join(error.split()), "fix the reported problem")
