"""Module that applies the declared GPU settings."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_settings
author: busbar contributors (!UNKNOWN)
short_description: Manage clocks, power limits, persistence, ECC and compute mode of GPUs
description:
  - Compares the settings with C(nvidia-smi -q -x) and changes those that differ on all GPUs of the host. Checks every
    value against the limits of each card before the first change, and changes nothing if a card rejects a value.
  - Settings that would affect running Slurm jobs are deferred or refused. Omitted settings stay unchanged.
extends_documentation_fragment: busbar.cluster.attributes.diff
options:
  settings: {description: Settings as in the option C(gpu_settings) of a profile., type: dict, required: true}
  values: {description: Settings of the host that override O(settings)., type: dict, default: {}}
  busy:
    description: How to handle settings that would affect running jobs.
    type: str
    choices: [defer, refuse]
    default: defer
"""

EXAMPLES = r"""
- busbar.cluster.gpu_settings: {settings: {persistence: true, power_limit_w: 500}}
"""

RETURN = r"""
boot_lines: {description: Options of nvidia-smi for the next boot., returned: success, type: list, elements: str}
commands: {description: Commands that were or would be run., returned: always, type: list, elements: str}
deferred: {description: Deferred settings with the running jobs., returned: always, type: str}
pending: {description: Settings that need a reset or a reboot., returned: always, type: str}
unread: {description: Reason why the GPUs could not be read., returned: always, type: str}
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.hardware.nvidia_smi_run import local_jobs, one_line, smi_runner
from ..module_utils.nvidia.gpu_settings import (
    HARMLESS,
    LOCKS,
    Step,
    boot_lines,
    merge_settings,
    settings_errors,
    settings_plan,
)
from ..module_utils.nvidia.gpu_settings_parse import settings_found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..module_utils.hardware.nvidia_smi_run import Smi

DRIVER = Path("/sys/module/nvidia")
# File with the clocks that this module has locked since the boot.
RECORD = Path("/run/busbar/gpu_clocks")


def recorded(path: Path, driver: Path = DRIVER) -> list[str]:
    """Return the options that locked the clocks; empty if the driver was reloaded after that."""
    try:
        noted = path.stat().st_mtime
        if driver.exists() and driver.stat().st_ctime > noted:
            return []
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def write_record(path: Path, settings: dict[str, Any], before: Sequence[str]) -> None:
    """Record how clocks are locked now; entries for undeclared settings are kept."""
    options = {option for key, (option, _) in LOCKS.items() if key in settings}
    kept = [line for line in before if line.partition(" ")[0] not in options]
    lines = [*kept, *(line for line in boot_lines(settings) if line.partition(" ")[0] in options)]
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def command(step: Step, *, everything: bool) -> list[str]:
    """Return the nvidia-smi options of a step; the GPU list is omitted if the step is for all GPUs."""
    chosen = [] if everything else ["-i", ",".join(map(str, step.gpus))]
    # Subcommands of nvidia-smi precede their options.
    if not step.words[0].startswith("-"):
        return [step.words[0], *chosen, *step.words[1:]]
    return [*chosen, *step.words]


def shown(steps: Sequence[Step], side: str) -> str:
    """Return one line per GPU and setting with the value on one `side` of the diff."""
    lines = [f"GPU {gpu}: {step.key}: {getattr(step, side)}" for step in steps for gpu in step.gpus]
    return "".join(f"{line}\n" for line in sorted(lines))


def pending_ecc(gpus: Sequence[dict[str, Any]], settings: dict[str, Any]) -> str:
    """Describe the GPUs that need a reset or reboot to activate the declared ECC mode, or return ''."""
    late = [gpu["index"] for gpu in gpus if "ecc" in settings and gpu["ecc"] not in {None, settings["ecc"]}]
    if not late:
        return ""
    mode = "on" if settings["ecc"] else "off"
    return (
        f"ECC {mode} of GPU {','.join(map(str, late))} is not active until a reboot (or `nvidia-smi "
        "--gpu-reset` without jobs)"
    )


def read(module: AnsibleModule, smi: Smi | None, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the GPUs' settings; exit the module if nvidia-smi lists no GPU, because the boot service applies them."""
    status, text = smi(["-q", "-x"]) if smi else (1, "not installed")
    boost, sliders = smi(["boost-slider", "-l"]) if smi and "vboost" in settings else (1, "")
    gpus = settings_found(text, "" if boost else sliders) if status == 0 else []
    if not gpus:
        unread = f"nvidia-smi: {one_line(text) if status else 'lists no GPU'}"
        lines = boot_lines(settings)
        module.exit_json(changed=False, commands=[], deferred="", pending="", unread=unread, boot_lines=lines)
    return gpus


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "dict", "required": True},
            "values": {"type": "dict", "default": {}},
            "busy": {"type": "str", "choices": ["defer", "refuse"], "default": "defer"},
        },
        supports_check_mode=True,
    )
    settings = merge_settings(module.params["settings"], module.params["values"])
    wrong = settings_errors(settings)
    if wrong:
        module.fail_json(msg=f"gpu_settings: {'; '.join(wrong)}")
    smi = smi_runner(module)
    gpus = read(module, smi, settings)
    locked = recorded(RECORD)
    faults, steps = settings_plan(settings, gpus, locked)
    if faults:
        lines = [f"GPU {','.join(map(str, each.gpus))}: {each.key}: {each.problem} ({each.remedy})" for each in faults]
        module.fail_json(msg="Nothing was changed. " + "; ".join(lines))
    jobs = local_jobs() if any(step.key not in HARMLESS for step in steps) else []
    affected = sorted({step.key for step in steps if step.key not in HARMLESS}) if jobs else []
    deferred = f"{', '.join(affected)}: running jobs would be affected: {', '.join(jobs)}" if affected else ""
    if affected and module.params["busy"] == "refuse":
        module.fail_json(msg=f"Nothing was changed. {deferred}; drain the node first, or set busy: defer")
    steps = [step for step in steps if step.key not in affected]
    commands = [command(step, everything=len(step.gpus) == len(gpus)) for step in steps]
    if not module.check_mode and smi is not None:
        for words in commands:
            status, text = smi(words)
            if status:
                module.fail_json(msg=f"`nvidia-smi {' '.join(words)}` failed: {one_line(text)}")
        if any(step.key in LOCKS for step in steps):
            write_record(RECORD, settings, locked)
        gpus = read(module, smi, settings) if steps else gpus
    diff = {"before": shown(steps, "before"), "after": shown(steps, "after")}
    module.exit_json(
        changed=bool(steps),
        commands=[f"nvidia-smi {' '.join(words)}" for words in commands],
        deferred=deferred,
        pending=pending_ecc(gpus, settings),
        unread="",
        boot_lines=boot_lines(settings),
        diff=[diff] if steps else [],
    )


if __name__ == "__main__":
    main()
