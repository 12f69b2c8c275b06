"""Tests of the keys of slurm.conf, and of suggestions for unknown ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.busbar.cluster.plugins.plugin_utils.slurm.conf_keys import (
    SLURM_CONF_KEYS,
    nearest_key,
    unknown_keys,
)

OWN = Path(__file__).resolve().parents[5] / "roles" / "slurm" / "vars" / "main.yml"


def test_keys_of_the_role_are_known() -> None:
    own = yaml.safe_load(OWN.read_text())["__slurm_own_config"]
    assert unknown_keys([*own, "GresTypes", "healthcheckprogram", "SLURMCTLDHOST", "NodeSet", "MetricsType"]) == []
    # Keys of older or newer releases.
    assert unknown_keys(["FastSchedule", "SlurmctldPlugstack", "MetricsAuthUsers"]) == []


@pytest.mark.parametrize(
    ("key", "meant"),
    [("SchedulerTyp", "SchedulerType"), ("maxjobcont", "MaxJobCount"), ("PreemptModus", "PreemptMode"), ("Zebra", "")],
)
def test_nearest_key_is_suggested(key: str, meant: str) -> None:
    assert unknown_keys([key, "MaxJobCount"]) == [key]
    assert nearest_key(key) == meant


def test_each_key_is_listed_once() -> None:
    assert len({key.lower() for key in SLURM_CONF_KEYS}) == len(SLURM_CONF_KEYS) > 200
