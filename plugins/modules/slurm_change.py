"""Module that reports the jobs lost by a change to Slurm's configuration or accounting, and the required action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_change
author: busbar contributors (!UNKNOWN)
short_description: Check a change of Slurm's configuration before and after it is written
description:
  - With O(content), before slurm.conf is written, compares running and pending jobs with the new slurm.conf and
    accounting, and fails if a job would lose its node, partition, resources, account, user or QOS.
  - Queries slurmctld once. If it runs but does not answer, any change is refused. If it does not run, only the removal
    of nodes or partitions is refused, because jobs may use them.
  - With O(changes), after the files are written, returns the action that activates them. Since Slurm 23.11 C(scontrol
    reconfigure) applies almost every change without a restart.
extends_documentation_fragment: busbar.cluster.attributes.read_only
options:
  changes:
    description: Changes to check, as C(diff) of M(busbar.cluster.templates).
    type: list
    elements: dict
  content:
    description: New content of slurm.conf to compare with the current one.
    type: str
  path:
    description: Path of slurm.conf.
    type: path
    default: /etc/slurm/slurm.conf
  pending:
    description: Path of the C(pending) file of M(busbar.cluster.templates), which lists files that are not active yet.
    type: path
  state_directory:
    description: State directory of slurmctld.
    type: path
    default: /var/lib/slurm/slurmctld
  accounts:
    description: The declared accounts.
    type: list
    elements: dict
    default: []
  users:
    description: The declared users of accounting.
    type: list
    elements: dict
    default: []
  qos:
    description: The declared qualities of service.
    type: list
    elements: dict
    default: []
  gres_in_use:
    description: Whether to fail if the number of GPUs changes on a node with GPU jobs.
    type: bool
    default: true
  allow:
    description: Whether to warn instead of failing.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Check that no job is lost
  busbar.cluster.slurm_change:
    content: "{{ lookup('ansible.builtin.template', 'slurm.conf.j2') }}"
    state_directory: /var/lib/slurm/slurmctld

- name: Choose between reconfigure and restart
  busbar.cluster.slurm_change:
    changes: "{{ written.diff }}"
  register: __example_change
"""

RETURN = r"""
jobs:
  description: Jobs that would be lost, as listed by squeue.
  returned: with O(content)
  type: list
  elements: str
gate:
  description: The line of slurm.conf that drains nodes new to the cluster. Empty if no node is new.
  returned: with O(content)
  type: list
  elements: str
removed:
  description: C(nodes) and C(partitions) of slurmctld that the new slurm.conf does not have.
  returned: with O(content)
  type: dict
action:
  description: Action that activates the files, V(none), V(reconfigure) or V(restart).
  returned: with O(changes)
  type: str
old_files:
  description: The previous files, as entries of the option O(busbar.cluster.templates#module:more).
  returned: with O(changes)
  type: list
  elements: dict
since:
  description: Time of the run, in the format of C(journalctl --since).
  returned: with O(changes)
  type: str
"""

import json
import os
import tempfile
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.slurm.config_change import old_files, slurm_action
from ..module_utils.slurm.job_resources import HELD_JOBS, HeldJob, read_held_jobs
from ..module_utils.slurm.jobs_at_risk import (
    Accounting,
    accounting_losses,
    configuration_losses,
    loss_report,
    removed_names,
)
from ..module_utils.slurm.new_nodes import gate_lines
from ..module_utils.slurm.slurm_conf import ClusterConf, read_cluster

SLURM_CONF = "/etc/slurm/slurm.conf"
PATIENCE_S = 60
# systemd restarts a slurmctld that fails at startup every five seconds.
LOOKS = 3
BETWEEN_LOOKS_S = 2.0
OVERRIDE = "or accept the loss of jobs: run again with -e slurm_allow_job_loss=true"


def text_of(path: Path) -> str | None:
    """Return the text of a file, or None if it does not exist."""
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return None


def active_text(path: str, pending: str | None) -> str | None:
    """Return the slurm.conf that slurmctld has loaded; after a killed run it is in the pending file."""
    note = text_of(Path(pending)) if pending else None
    try:
        noted = json.loads(note) if note else {}
    except ValueError:
        noted = {}
    return noted[path] if path in noted else text_of(Path(path))


def daemon_pids(name: str = "slurmctld", proc: Path = Path("/proc")) -> set[str]:
    """Return the PIDs of a daemon."""
    return {entry.parent.name for entry in proc.glob("[0-9]*/comm") if (text_of(entry) or "").strip() == name}


def daemon_keeps_running() -> bool:
    """Return whether a slurmctld process stays alive for several checks in a row."""
    pids = daemon_pids()
    for _ in range(LOOKS - 1):
        if not pids:
            break
        time.sleep(BETWEEN_LOOKS_S)
        pids &= daemon_pids()
    return bool(pids)


def ask(module: AnsibleModule, squeue: str, configuration: str | None) -> tuple[list[HeldJob] | None, str]:
    """Return the jobs, or None with the reason."""
    command = ["timeout", str(PATIENCE_S), squeue, *HELD_JOBS[1:]]
    environment = {"LC_ALL": "C.UTF-8"}
    if configuration:
        environment["SLURM_CONF"] = configuration
    status, out, err = module.run_command(command, environ_update=environment)
    if status != 0:
        return None, " ".join((err or out or f"no answer within {PATIENCE_S} s").split())[-300:]
    try:
        return read_held_jobs(out), ""
    except ValueError as exc:
        return None, str(exc)


def read_jobs(module: AnsibleModule, squeue: str) -> tuple[list[HeldJob] | None, str]:
    """Return the jobs, or None with the reason; use the new slurm.conf if the current one is damaged."""
    jobs, reason = ask(module, squeue, None)
    if jobs is not None:
        return jobs, ""
    descriptor, name = tempfile.mkstemp(prefix="busbar-slurm-")
    module.add_cleanup_file(name)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(module.params["content"])
    jobs, _ = ask(module, squeue, name)
    return jobs, reason


def refuse_unknown_jobs(
    module: AnsibleModule, old: ClusterConf, new: ClusterConf, reason: str, *, changes: bool
) -> None:
    """Fail if the jobs are unknown and the change may end some of them."""
    if daemon_keeps_running():
        if changes:
            module.fail_json(
                msg=f"Slurm was not changed: slurmctld is running but does not list its jobs ({reason}), so this "
                f"change could end jobs. Check slurmctld (journalctl -u slurmctld), {OVERRIDE}"
            )
        return
    gone = removed_names(old, new)
    if gone and (Path(module.params["state_directory"]) / "job_state").exists():
        module.fail_json(
            msg=f"Slurm was not changed: this removes {', '.join(gone)}, but slurmctld is not running and cannot "
            f"report whether jobs use them. Start it first (systemctl start slurmctld), {OVERRIDE}"
        )


def exit_with_action(module: AnsibleModule) -> None:
    """Exit the module with the action that activates the changed files."""
    changes = module.params["changes"]
    always = {"since": time.strftime("%Y-%m-%d %H:%M:%S"), "old_files": old_files(changes)}
    program = module.get_bin_path("slurmctld")
    if program is None:
        module.fail_json(msg="slurmctld is not installed", **always)
    status, out, err = module.run_command([program, "-V"], environ_update={"LC_ALL": "C.UTF-8"})
    if status:
        module.fail_json(msg=f"slurmctld -V exited with status {status}", stderr=err.strip(), **always)
    try:
        action = slurm_action(changes, out)
    except ValueError as exc:
        module.fail_json(msg=f"slurmctld -V: {exc}", **always)
    module.exit_json(changed=False, action=action, **always)


def main() -> None:
    """Run the module."""
    entries = {"type": "list", "elements": "dict", "default": []}
    module = AnsibleModule(
        argument_spec={
            "changes": {"type": "list", "elements": "dict"},
            "content": {"type": "str"},
            "path": {"type": "path", "default": SLURM_CONF},
            "pending": {"type": "path"},
            "state_directory": {"type": "path", "default": "/var/lib/slurm/slurmctld"},
            "accounts": entries,
            "users": entries,
            "qos": entries,
            "gres_in_use": {"type": "bool", "default": True},
            "allow": {"type": "bool", "default": False},
        },
        required_one_of=[("changes", "content")],
        mutually_exclusive=[("changes", "content")],
        supports_check_mode=True,
    )
    if module.params["changes"] is not None:
        exit_with_action(module)
    nothing: dict[str, list[str]] = {"nodes": [], "partitions": []}
    new = read_cluster(module.params["content"])
    gate = gate_lines(text_of(Path(module.params["path"])) or "", new.nodes)
    squeue = module.get_bin_path("squeue")
    before = active_text(module.params["path"], module.params["pending"])
    if squeue is None or before is None:
        module.exit_json(changed=False, jobs=[], removed=nothing, gate=gate)
        return
    declared = Accounting(*(module.params[key] for key in ("accounts", "users", "qos")))
    old = read_cluster(before)
    removed = {
        "nodes": [name for name in old.nodes if name not in new.nodes],
        "partitions": [name for name in old.partitions if name not in new.partitions],
    }
    jobs, reason = read_jobs(module, squeue)
    if jobs is None:
        removes = any(item.get("state") == "absent" for items in declared for item in items)
        if not module.params["allow"]:
            refuse_unknown_jobs(module, old, new, reason, changes=removes or before != module.params["content"])
        module.exit_json(changed=False, jobs=[], removed=removed, gate=gate)
        return
    losses = configuration_losses(jobs, old, new, gres_in_use=module.params["gres_in_use"])
    lost = {loss.job.label for loss in losses}
    losses += [loss for loss in accounting_losses(jobs, declared) if loss.job.label not in lost]
    labels = [loss.job.label for loss in losses]
    if losses and not module.params["allow"]:
        module.fail_json(msg=f"Slurm was not changed: jobs would be lost.\n{loss_report(losses)}", jobs=labels)
    if losses:
        module.warn(f"slurm_allow_job_loss: this run kills these jobs: {', '.join(labels[:20])}")
    module.exit_json(changed=False, jobs=labels, removed=removed, gate=gate)


if __name__ == "__main__":
    main()
