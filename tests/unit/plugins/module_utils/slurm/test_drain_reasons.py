"""Tests that every drain reason of Slurm has a cause and a remedy in doctor, the alert and the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.health.host_diagnosis import drain_problems
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.scontrol_nodes import read_text_nodes
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.slurm_drain_reasons import (
    DRAIN_REASONS,
    drain_remedy,
    matching_reasons,
)

TOP = Path(__file__).resolve().parents[5]
# Made from the format strings of Slurm 22.05 to 26.05. The first ones put the node into INVALID_REG.
INVALID = (
    "gres/gpu count reported lower than configured (7 < 8)",
    "gres/gpu count too low (1 < 2)",
    "gres/gpu:h100 count too low (7 < 8)",
    "gres/gpu type (a100) reported but not configured",
    "gres/gpu count changed and jobs are using them (8 != 7)",
    "gres/gpu type changed and jobs are using them",
    "gpu GRES core specification 0-63 for node gpu1 doesn't match socket boundaries. (Socket 0 is cores 0-55)",
    "Invalid GRES Links value (-1,0) on node gpu1: i=2 >= link_len=2.",
    "RestrictedCoresPerGPU=2 but no gpus on node gpu1",
    "Low socket*core*thread count, Low CPUs",
    "Low RealMemory (reported:1031552 < 100.00% of configured:1048576)",
    "Low TmpDisk",
    "CoreSpec differ",
    "Could not unpack gres data",
    "Failed to parse dynamic_conf nodeline",
    "Failed to set topology 'default:s1'",
    "Reported active features (a) are not a superset of currently active changeable features (b)",
)
DRAINED = (
    "Kill task failed",
    "Kill task failed (JobId=77 StepId=0)",
    "Job step not running (JobId=77 StepId=batch)",
    "Prolog error",
    "Prolog/Epilog failure",
    "Epilog error",
    "Job env setup error",
    "batch job complete failure",
    "SlurmdSpoolDir is full",
    "Duplicate jobid",
    "switch_g_job_postfini failed",
    "Bad core count",
)
DOWN = (
    "Not responding",
    "Node unexpectedly rebooted",
    "ResumeTimeout reached",
    "reboot timed out",
    "NO NETWORK ADDRESS FOUND",
    "reboot requested : reboot issued",
    "reboot complete",
    "POWER_DOWN_ASAP",
)


@pytest.mark.parametrize("reason", [*INVALID, *DRAINED, *DOWN])
def test_doctor_gives_cause_and_commands(reason: str) -> None:
    state = "DOWN" if reason in DOWN else "IDLE+DRAIN"
    line = f"NodeName=gpu1 State={state} Partitions=main Reason={reason} [slurm@2027-01-15T07:00:00]"
    (found,) = drain_problems(read_text_nodes(line))
    assert reason in found["problem"]
    remedy = found["remedy"]
    assert ": " in remedy
    assert "{" not in remedy
    assert "scontrol update NodeName=gpu1 State=RESUME" in remedy
    # Slurm refuses State=RESUME until slurmd registers again.
    assert reason not in INVALID or remedy.index("restart slurmd") < remedy.index("State=RESUME")


def test_all_reasons_in_one_text_are_explained() -> None:
    remedy = drain_remedy("gpu1", "Low CPUs, Low RealMemory (reported:1 < 100.00% of configured:2)")
    assert "fewer CPUs" in remedy
    assert "less memory" in remedy
    assert remedy.count("State=RESUME") == 1
    assert len(matching_reasons("Kill task failed : Not responding")) == 2


def test_manual_reason_has_no_slurm_remedy() -> None:
    assert drain_remedy("gpu1", "fan 3 is loud, low priority") == ""


def test_every_reason_of_the_table_has_an_example() -> None:
    examples = "\n".join([*INVALID, *DRAINED, *DOWN]).lower()
    assert [text for each in DRAIN_REASONS for text in each.texts if text.lower() not in examples] == []
    assert all(each.invalid == (each in matching_reasons("\n".join(INVALID))) for each in DRAIN_REASONS)


@pytest.mark.parametrize("reason", [*INVALID, *DRAINED])
def test_alert_fires_for_the_reason(reason: str) -> None:
    rules = yaml.safe_load((TOP / "roles/prometheus/files/rules/alerts_slurm.yml").read_text())["groups"][0]["rules"]
    (expression,) = (rule["expr"] for rule in rules if rule.get("alert") == "SlurmNodeDrainedByCheck")
    (pattern,) = re.findall(r'reason=~"(.+)"', expression)
    assert re.fullmatch(pattern, reason)
    assert not re.fullmatch(pattern, "fan 3 is loud")


@pytest.mark.parametrize("text", [text for each in DRAIN_REASONS for text in each.texts])
def test_troubleshooting_page_has_a_heading_for_the_reason(text: str) -> None:
    page = (TOP / "docs/troubleshooting.md").read_text()
    assert any(text in line for line in page.splitlines() if line.startswith("### "))
