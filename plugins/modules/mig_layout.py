"""Module that applies a MIG layout to a node's GPUs while no job runs on the node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: mig_layout
author: busbar contributors (!UNKNOWN)
short_description: Divide the GPUs of a node into MIG instances
description:
  - GPUs that match the layout stay unchanged. Fails before any change if the layout does not fit the hardware profile
    or a GPU. Drains the node in Slurm, changes nothing while jobs run, and resumes the node once Slurm's Gres matches.
  - Stops O(services), such as DCGM, during the change, and restarts those that ran, even if the change fails.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  layout: {description: "Entries with C(profile), C(count) and C(gpus); empty disables MIG.", type: raw, required: true}
  node: {description: Name of the node in Slurm., type: str, required: true}
  gpu: {description: Section C(gpu) of the hardware profile., type: dict, required: true}
  gres_mode: {description: How Slurm detects the MIG instances., type: str, default: files}
  plugin_folders:
    description: Directories that are searched for Slurm's plugins.
    type: list
    elements: path
    default: []
  wait_s: {description: Seconds to wait for running jobs., type: int, default: 0}
  services:
    description: Units to stop during the change, because they keep the GPUs open.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- busbar.cluster.mig_layout: {layout: [{profile: 1g.10gb, count: 7}], node: gpu1, gpu: {}}
"""

RETURN = r"""
commands: {description: Commands that were or would be run., returned: always, type: list, elements: str}
boot_lines: {description: Instances to create at boot., returned: success, type: list, elements: str}
waits: {description: Whether the node stays drained., returned: always, type: bool}
unread: {description: Reason why the GPUs could not be read., returned: always, type: str}
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.common.problems import REFUSED
from ..module_utils.hardware.nvidia_smi_run import local_jobs, one_line, smi_runner
from ..module_utils.nvidia.mig_change import GpuState, MigPlan, boot_layout, mig_plan, mig_states
from ..module_utils.nvidia.mig_layouts import gres_counts, layout_problems
from ..module_utils.slurm.local_node import SlurmNode, gres_of
from ..module_utils.storage.scratch_host import module_run

if TYPE_CHECKING:
    from ..module_utils.hardware.nvidia_smi_run import Smi

# Restores the settings that a GPU loses when it is reset to enable or disable MIG.
SETTINGS = "/usr/local/lib/busbar/gpu_settings_boot"
REASON = "busbar: MIG layout"
# Creates the named device files of the instances.
DEVICES = "/usr/local/lib/busbar/mig_devices.py"
# Units that write the CDI specification of GPU devices for containers: from the nvidia_container_toolkit role, and from
# NVIDIA.
DESCRIBING = ("busbar-nvidia-cdi", "nvidia-cdi-refresh")
STEP_S = 2
# The plugins with which Slurm detects instances; the distributions' Slurm packages contain only the first.
DETECTING = ("gres_gpu.so", "gpu_nvml.so")
_RUNNING = frozenset({"active", "activating", "reloading"})


class Declared(TypedDict):
    """Values derived from the layout: the instances to create at boot, and the number of GPUs of each Slurm type."""

    boot_lines: list[str]
    gres: dict[str, int]


def read_declared(module: AnsibleModule) -> Declared:
    """Return boot lines and GRES of the layout; fail the module if the layout is not possible."""
    gpu, layout, node = (module.params[key] for key in ("gpu", "layout", "node"))
    problems = layout_problems(gpu, layout)
    if problems:
        msg = f"Nothing was changed. The MIG layout of {node} is not possible: {'; '.join(problems)}"
        module.fail_json(msg=msg, **{REFUSED: True})
    there = {name for name in DETECTING for folder in module.params["plugin_folders"] if Path(folder, name).exists()}
    if module.params["gres_mode"] == "nvml" and there == {DETECTING[0]}:
        msg = (
            f"{node}: slurm_gres_mode is nvml, but the installed Slurm has no {DETECTING[1]}, like all packages of "
            "distributions, and would not detect MIG instances. Remedy: remove slurm_gres_mode, because "
            "its default needs no plugin, or install a Slurm that was built with NVML. Nothing was "
            "changed, and the node remains in service"
        )
        module.fail_json(msg=msg, **{REFUSED: True})
    return {"boot_lines": boot_layout(gpu, layout), "gres": dict(gres_counts(gpu, layout))}


class Change:
    """One change of the layout, from the drain to the resume of the node."""

    def __init__(self, module: AnsibleModule, smi: Smi, declared: Declared) -> None:
        """Store the module's parameters and the values derived from them."""
        self.module, self.smi, self.run, self.declared = module, smi, module_run(module), declared
        self.node = SlurmNode(module.params["node"], REASON, self.run)
        self.fields: dict[str, str] | None = None

    def states(self) -> list[GpuState]:
        """Return the MIG state of each GPU; exit the module if it cannot be read."""
        status, query = self.smi(["-q", "-x"])
        states = mig_states(query, self.smi(["mig", "-lgi"])[1]) if status == 0 else []
        if not states:
            unread = f"nvidia-smi: {one_line(query) if status else 'lists no GPU'}"
            self.module.exit_json(changed=False, commands=[], waits=False, unread=unread, **self.declared)
        return states

    def plan(self) -> MigPlan:
        """Return the differences between the GPUs and the layout."""
        return mig_plan(self.module.params["layout"], self.states())

    def look(self, *, needed: bool) -> None:
        """Query the node in Slurm; an unreachable controller is an error only before a change."""
        try:
            self.fields = self.node.fields()
        except RuntimeError as exc:
            if needed:
                self.module.fail_json(msg=f"Nothing was changed. {exc}")

    def running_jobs(self) -> list[str]:
        """Return the jobs on the node."""
        return sorted({*local_jobs(), *(self.node.jobs() if self.fields else [])}, key=int)

    def drain_and_wait(self) -> bool:
        """Drain the node and wait until it has no jobs; return whether this run drained it."""
        taken = self.fields is not None and "DRAIN" not in self.fields["State"]
        if taken:
            self.node.drain()
        deadline = time.monotonic() + self.module.params["wait_s"]
        jobs = self.running_jobs()
        while jobs and time.monotonic() < deadline:
            time.sleep(STEP_S)
            jobs = self.running_jobs()
        if jobs:
            if taken:
                self.node.resume()
            self.refuse(jobs)
        return taken

    def refuse(self, jobs: list[str]) -> None:
        """Fail the module because of the jobs."""
        waited = self.module.params["wait_s"]
        after = f" after {waited} s" if waited else ""
        msg = (
            f"Nothing was changed. Jobs {', '.join(jobs)} still run on {self.node.name}{after}, and the MIG "
            "change would remove their GPUs"
        )
        self.module.fail_json(msg=f"{msg}. Run again when they have finished, or set mig_wait_s")

    def stop(self) -> list[str]:
        """Stop the programs that keep the GPUs open; return those that were running.

        Raises:
            RuntimeError: a program does not stop.
        """
        names = self.module.params["services"]
        output = self.run(["systemctl", "is-active", *names])[1].split() if names else []
        running = [name for name, state in zip(names, output) if state in _RUNNING]
        if running:
            status, out, err = self.run(["systemctl", "stop", *running])
            if status:
                self.run(["systemctl", "start", *running])
                message = f"Nothing was changed. {', '.join(running)} cannot be stopped: {one_line(f'{err} {out}')}"
                raise RuntimeError(message)
        return running

    def start(self, names: list[str]) -> str:
        """Start the stopped services; return the error, or an empty string."""
        status, out, err = self.run(["systemctl", "start", *names]) if names else (0, "", "")
        return f"{', '.join(names)}: {one_line(f'{err} {out}')}" if status else ""

    def apply(self, plan: MigPlan) -> None:
        """Run the commands and verify the layout; an incomplete node stays drained."""
        left = f"; {self.node.name} stays drained" if self.fields else ""
        for words in plan.steps:
            status, text = self.smi(words)
            # Removing compute instances fails if a GPU instance has none.
            if status and "-dci" not in words:
                self.module.fail_json(
                    msg=f"`nvidia-smi {' '.join(words)}` failed: {one_line(text)}{left}", changed=True
                )
            if "-mig" in words:
                self.check_mode_switch(left)
        if any("-mig" in words for words in plan.steps) and Path(SETTINGS).exists():
            self.run([SETTINGS])
        rest = self.plan()
        if rest.steps:
            msg = f"The MIG layout is incomplete, and {self.node.name} stays drained. If MIG waits for a GPU reset, "
            self.module.fail_json(msg=f"{msg}reboot the node and run again. Missing:\n{rest.after}", changed=True)

    def check_mode_switch(self, left: str) -> None:
        """Fail if a GPU changes its MIG mode only at the next reset, as A100 and A30 may."""
        waiting = [state.gpu for state in self.states() if state.pending not in {None, bool(state.on)}]
        if waiting:
            which = ",".join(map(str, waiting))
            self.module.fail_json(
                msg=f"MIG mode of GPU {which} changes only with a GPU reset, which the driver did not do "
                f"because a process holds the GPU open{left}. Remedy: reboot {self.node.name}, or, "
                f"without processes on its GPUs, run `nvidia-smi --gpu-reset -i {which}` (for all GPUs "
                "of a node with NVSwitches), and run again",
                changed=True,
            )

    def name_devices(self) -> list[str]:
        """Name the device files of the instances; return the changes, or the expected changes in check mode.

        Raises:
            RuntimeError: a device file does not exist.
        """
        if not Path(DEVICES).exists():
            return []
        status, out, err = self.run([DEVICES, *(["--check"] if self.module.check_mode else [])])
        if status:
            message = f"{one_line(f'{out} {err}')}; slurmd cannot assign MIG instances without these device files"
            raise RuntimeError(message)
        return out.splitlines()

    def restart_cdi_services(self) -> None:
        """Restart the services that describe the instances to containers; their failure must not undo the change."""
        for name in DESCRIBING:
            status, out, err = self.run(["systemctl", "try-restart", name])
            if status and "not found" not in f"{out} {err}".lower():
                self.module.warn(
                    f"{name} still exposes the previous MIG instances to containers: {one_line(f'{err} {out}')}"
                )

    def gres_matches(self) -> bool:
        """Return whether Slurm's GRES match the layout."""
        return self.fields is None or gres_of(self.fields["Gres"]) == self.declared["gres"]

    def resume_node(self) -> bool:
        """Resume the node if this module drained it; return whether that must wait until Slurm's GRES match."""
        if not self.gres_matches():
            return True
        if self.fields:
            self.run(["systemctl", "try-restart", "slurmd"])
            self.node.resume()
        return False


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "layout": {"type": "raw", "required": True},
            "node": {"type": "str", "required": True},
            "gpu": {"type": "dict", "required": True},
            "gres_mode": {"type": "str", "default": "files"},
            "plugin_folders": {"type": "list", "elements": "path", "default": []},
            "wait_s": {"type": "int", "default": 0},
            "services": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    declared = read_declared(module)
    smi = smi_runner(module)
    if smi is None:
        module.exit_json(changed=False, commands=[], waits=False, unread="nvidia-smi is not installed", **declared)
        return
    change = Change(module, smi, declared)
    plan = change.plan()
    if plan.problems:
        module.fail_json(msg=f"Nothing was changed. {'; '.join(plan.problems)}")
    change.look(needed=bool(plan.steps))
    try:
        result = apply_changes(change, plan)
    except RuntimeError as exc:
        module.fail_json(msg=str(exc))
    commands = [f"nvidia-smi {' '.join(words)}" for words in plan.steps]
    module.exit_json(**result, **declared, commands=commands, unread="")


def apply_changes(change: Change, plan: MigPlan) -> dict[str, Any]:
    """Apply the differences and return the module's result."""
    check = change.module.check_mode
    ours = change.fields is not None and change.node.is_ours(change.fields)
    if not plan.steps:
        named = change.name_devices()
        # An earlier run stopped before Slurm's GRES matched the layout.
        waits = ours and (not change.gres_matches() if check else change.resume_node())
        after = "".join(f"{line}\n" for line in named)
        return {
            "changed": bool(named) or (ours and not waits),
            "waits": waits,
            "diff": [{"before": "", "after": after}] if named else [],
        }
    diff = [{"before": plan.before, "after": plan.after}]
    if check:
        jobs = change.running_jobs()
        if jobs and not change.module.params["wait_s"]:
            change.refuse(jobs)
        return {"changed": True, "waits": False, "diff": diff}
    taken = change.drain_and_wait()
    try:
        stopped = change.stop()
    except RuntimeError:
        if taken:
            change.node.resume()
        raise
    problem = ""
    try:
        change.apply(plan)
        change.name_devices()
        change.restart_cdi_services()
    finally:
        problem = change.start(stopped)
    if problem:
        message = f"The MIG layout is set, but services that were stopped for it do not start: {problem}"
        raise RuntimeError(message)
    waits = change.resume_node() if taken or ours else False
    return {"changed": True, "waits": waits, "diff": diff}


if __name__ == "__main__":
    main()
