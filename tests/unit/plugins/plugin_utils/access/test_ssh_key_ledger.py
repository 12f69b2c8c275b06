"""Tests of revoked host keys: former keys of hosts, and keys of removed hosts, until their certificates expire."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.ssh_ledger import (
    current_keys,
    former_keys,
    updated_ledger,
)

NOW, DAY, DAYS = 1_800_000_000, 86400, 90
CA, NEXT_CA = "ssh-ed25519 CA", "ssh-ed25519 NEXT"
OLD, NEW, OTHER = "ssh-ed25519 OLD", "ssh-ed25519 NEW", "ssh-ed25519 OTHER"
HOSTS = ["gpu1", "gpu2"]


def _update(ledger: list[dict[str, Any]], present: dict[str, str], **changes: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    fields: dict[str, Any] = {"hosts": HOSTS, "trusted": [CA], "now": NOW, "days": DAYS, **changes}
    return updated_ledger(ledger, present, fields.pop("hosts"), fields.pop("trusted"), **fields)


FIRST = _update([], {"gpu1": f"{OLD} root@gpu1", "gpu2": OTHER})


def test_unchanged_hosts_leave_the_ledger_unchanged() -> None:
    assert current_keys(FIRST) == {"gpu1": OLD, "gpu2": OTHER}
    assert former_keys(FIRST) == []
    assert _update(FIRST, {"gpu1": OLD}, now=NOW + 900 * DAY) == FIRST


def test_replaced_key_is_revoked_until_its_last_certificate_expires() -> None:
    second = _update(FIRST, {"gpu1": NEW})
    assert (current_keys(second)["gpu1"], former_keys(second)) == (NEW, [OLD])
    assert _update(second, {"gpu1": NEW}, now=NOW + 5 * DAY) == second
    assert former_keys(_update(second, {}, now=NOW + (DAYS + 1) * DAY)) == [OLD]
    assert former_keys(_update(second, {}, now=NOW + (DAYS + 2) * DAY)) == []


def test_key_of_a_removed_host_is_revoked_until_it_returns() -> None:
    gone = _update(FIRST, {"gpu2": OTHER}, hosts=["gpu2"])
    assert former_keys(gone) == [OLD]
    assert former_keys(_update(gone, {})) == []
    assert former_keys(_update(gone, {"gpu1": NEW})) == [OLD]


def test_provisioning_host_is_not_in_the_ledger() -> None:
    assert _update(FIRST, {"gpu1": OLD, "localhost": NEW}) == FIRST


def test_renamed_host_keeps_its_key() -> None:
    renamed = _update(FIRST, {"node1": OLD, "gpu2": OTHER}, hosts=["node1", "gpu2"])
    assert former_keys(renamed) == []


@pytest.mark.parametrize("present", [{"gpu1": NEW, "gpu2": OTHER}, {"gpu1": OLD, "gpu2": OTHER}])
def test_keys_signed_only_by_a_former_authority_are_dropped(present: dict[str, str]) -> None:
    rotated = _update(FIRST, present, trusted=[NEXT_CA])
    assert (current_keys(rotated), former_keys(rotated)) == (present, [])
    assert {entry["authority"] for entry in rotated} == {NEXT_CA}
