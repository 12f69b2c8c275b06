"""Tests that a secret held by hosts but missing on the provisioning host is replaced only on request."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.plugin_utils.access.held_secrets import (
    Site,
    held_problems,
    rotation_problems,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.common.problem_report import problem_report

KNOWN = {"munge.key": {"meaning": "a munge key"}, "ssh_ca": {"meaning": "an SSH certificate authority"}}
NOBODY: tuple[str, dict[str, Any]] = ("ctl", {})


def _site(*absent: str, rotated: tuple[str, ...] = (), others: tuple[str, ...] = ()) -> Site:
    return {
        "directory": "/site/secrets",
        "absent": list(absent),
        "known": KNOWN,
        "rotated": list(rotated),
        "others": list(others),
    }


def test_hosts_file_and_remedy_are_named() -> None:
    answers: dict[str, dict[str, Any]] = {
        "ctl": {"held": ["munge.key", "ssh_ca"]},
        "gpu1": {"held": ["munge.key"]},
        "gpu2": {"held": []},
    }
    text = problem_report(held_problems(answers, NOBODY, _site("munge.key", "ssh_ca")))
    assert "ctl,gpu1: munge.key: the hosts have a munge key, but it is missing in /site/secrets" in text
    assert "ctl: ssh_ca: the hosts have an SSH certificate authority, but it is missing in /site/secrets" in text
    assert "restore /site/secrets/munge.key from a backup" in text
    assert "-e preflight_rotate_secrets=munge.key,ssh_ca" in text


def test_new_cluster_has_no_held_secrets() -> None:
    answers: dict[str, dict[str, Any]] = {"ctl": {"held": []}, "gpu1": {"unreachable": True}, "gpu2": {}}
    assert held_problems(answers, NOBODY, _site("munge.key", "ssh_ca")) == []


def test_controller_outside_of_the_run_is_checked() -> None:
    answer = ("ctl", {"held": ["munge.key"]})
    (found,) = held_problems({"gpu3": {"held": []}}, answer, _site("munge.key", others=("ctl", "gpu1")))
    assert (found["hosts"], found["key"]) == (["ctl"], "munge.key")
    assert held_problems({"gpu3": {"held": []}}, ("ctl", {"skipped": True}), _site("munge.key")) == []


@pytest.mark.parametrize("answer", [{"unreachable": True, "msg": "no route"}, {"failed": True, "msg": "no route"}])
def test_unreachable_controller_stops_the_run(answer: dict[str, Any]) -> None:
    (found,) = held_problems({"gpu3": {"held": []}}, ("ctl", answer), _site("munge.key"))
    assert found["hosts"] == ["ctl"]
    assert "cannot be checked for munge.key" in found["problem"]
    assert "no route" in found["problem"]


def test_rotation_is_allowed_on_all_hosts_for_the_named_secrets() -> None:
    answers = {"ctl": {"held": ["munge.key", "ssh_ca"]}}
    (left,) = held_problems(answers, NOBODY, _site("munge.key", "ssh_ca", rotated=("munge.key",)))
    assert left["key"] == "ssh_ca"
    assert held_problems(answers, NOBODY, _site("munge.key", rotated=("munge.key",))) == []


def test_rotation_requires_all_hosts() -> None:
    answers = {"ctl": {"held": ["munge.key"]}}
    (found,) = held_problems(answers, NOBODY, _site("munge.key", rotated=("munge.key",), others=("gpu1", "gpu2")))
    assert found["hosts"] == ["gpu1", "gpu2"]
    assert "would keep the old munge.key" in found["problem"]
    assert "without --limit" in found["remedy"]
    fresh: dict[str, dict[str, Any]] = {"gpu1": {"held": []}}
    assert held_problems(fresh, NOBODY, _site("munge.key", rotated=("munge.key",), others=("gpu2",))) == []


def test_unknown_secret_in_a_rotation_request_is_refused() -> None:
    known = list(KNOWN)
    assert rotation_problems(["munge.key"], [], known, "/site/secrets") == []
    (unknown,) = rotation_problems(["munge"], [], known, "/site/secrets")
    assert "'munge' is not a secret of the cluster" in unknown["problem"]
    assert "munge.key" in unknown["remedy"]
    (present,) = rotation_problems(["munge.key"], ["munge.key"], known, "/site/secrets")
    assert "move /site/secrets/munge.key to another directory" in present["remedy"]
