"""Tests of reducing a node's state flags to one state."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.slurm.node_states import (
    NODE_STATES,
    node_state,
    split_state,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("state", "flags", "expected"),
    [
        # Text of scontrol, text with separate flags, and a list of all: old and new JSON.
        ("IDLE", (), "idle"),
        ("idle", [], "idle"),
        (["IDLE"], (), "idle"),
        ("MIXED", (), "mixed"),
        ("mixed", [], "mixed"),
        ("ALLOCATED", (), "allocated"),
        (["ALLOCATED"], (), "allocated"),
        ("DOWN", (), "down"),
        ("DOWN*", (), "down"),
        (["DOWN", "NOT_RESPONDING"], (), "down"),
        ("IDLE*", (), "down"),
        (["MIXED", "NOT_RESPONDING"], (), "down"),
        ("ERROR", (), "down"),
        # Like sinfo: a node that was drained before it went down is drained.
        ("IDLE+DRAIN", (), "drained"),
        ("idle", ["DRAIN"], "drained"),
        (["IDLE", "DRAIN"], (), "drained"),
        ("down", ["DRAIN", "NOT_RESPONDING"], "drained"),
        ("DOWN*+DRAIN", (), "drained"),
        (["IDLE", "FAIL"], (), "drained"),
        ("IDLE+MAINTENANCE+DRAIN", (), "drained"),
        ("ALLOCATED+DRAIN", (), "draining"),
        (["MIXED", "DRAIN"], (), "draining"),
        (["IDLE", "COMPLETING", "DRAIN"], (), "draining"),
        (["IDLE", "COMPLETING"], (), "allocated"),
        (["MIXED", "COMPLETING"], (), "mixed"),
        (["IDLE", "RESERVED"], (), "reserved"),
        (["MIXED", "RESERVED"], (), "mixed"),
        (["IDLE", "PLANNED"], (), "planned"),
        ("IDLE-", (), "planned"),
        (["MIXED", "PLANNED"], (), "mixed"),
        (["IDLE", "MAINTENANCE"], (), "maint"),
        (["IDLE", "MAINTENANCE", "RESERVED"], (), "maint"),
        (["ALLOCATED", "MAINTENANCE"], (), "allocated"),
        ("DOWN+MAINTENANCE", (), "down"),
        (["IDLE", "CLOUD", "POWERED_DOWN"], (), "other"),
        ("IDLE~", (), "other"),
        (["IDLE", "POWERED_DOWN", "NOT_RESPONDING"], (), "other"),
        (["IDLE", "REBOOT_ISSUED", "NOT_RESPONDING"], (), "other"),
        (["IDLE", "CLOUD"], (), "idle"),
        (["FUTURE"], (), "other"),
        ("UNKNOWN", (), "other"),
        ("", (), "other"),
    ],
)
def test_state(state: str | list[str], flags: list[str], expected: str) -> None:
    assert node_state(split_state(state, flags)) == expected


@given(st.lists(st.text()), st.text())
def test_any_input_gets_a_state(flags: list[str], state: str) -> None:
    assert node_state(split_state(state, flags)) in NODE_STATES
