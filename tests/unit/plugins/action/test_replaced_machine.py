"""Tests of the action that detects a replaced machine and records the replacement."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.busbar.cluster.plugins.action import replaced_machine
from ansible_collections.busbar.cluster.plugins.action.replaced_machine import fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Call = Callable[..., dict[str, Any]]

OLD, NEW, GONE = (f"ssh-ed25519 AAAA{word}" for word in ("OLD1", "NEW1", "GONE"))
ENTRY = {"authority": "x", "days": 90}
LEDGER = [
    {"host": "gpu3", "key": OLD, "retired": None, **ENTRY},
    {"host": "gpu3", "key": GONE, "retired": 5, **ENTRY},
]
PART = {"kind": "machine", "id": "", "serial": "SN-2", "name": "Box"}
UNKNOWN = "Failed to connect to the host via ssh: No ED25519 host key is known for gpu3\nHost key verification failed."


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Return a function that runs the action at a site whose ledger has the node; `key` is the host key offered."""
    (tmp_path / "ssh_host_keys.json").write_text(json.dumps(LEDGER))
    monkeypatch.setattr(ActionBase, "run", lambda *_: {})

    def call(
        key: str = NEW,
        *,
        error: str = "",
        check: bool = False,
        found: object = None,
        **given: Any,  # noqa: ANN401 - arguments of the action
    ) -> dict[str, Any]:
        def execute(**asked: object) -> dict[str, Any]:
            assert (asked["module_name"], asked["module_args"]) == ("busbar.cluster.node_info", {"machine": True})
            if error:
                raise AnsibleConnectionFailure(error)
            return {"record": {"parts": [PART], "host_key": key}}

        monkeypatch.setattr(replaced_machine, "scan_keys", lambda *_: [key])
        arguments = {
            "state": "compared",
            "reports_dir": str(tmp_path / "reports"),
            "secrets_dir": str(tmp_path),
            "known_hosts": str(tmp_path / "known_hosts"),
            "names": ["gpu3", "10.0.0.13"],
            "port": 22,
            "fingerprints": [],
            "allow_same": False,
            **given,
        }
        action = replaced_machine.ActionModule.__new__(replaced_machine.ActionModule)
        for name, value in {
            "validate_argument_spec": lambda _: (None, arguments),
            "_execute_module": execute,
            "_connection": SimpleNamespace(reset=lambda: None),
            "_play_context": SimpleNamespace(remote_addr="10.0.0.13"),
            "_task": SimpleNamespace(check_mode=check),
        }.items():
            monkeypatch.setattr(action, name, value, raising=False)
        known = {"inventory_hostname": "gpu3", "__replaced_machine": found or {}}
        return dict(action.run(task_vars=known))

    return call


def records(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "reports" / "nodes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_replaced_machine_is_recorded_and_admitted(tmp_path: Path, run: Call) -> None:
    found = run()
    assert (found.get("failed"), found["event"], found["record"]["host_key_before"]) == (None, "replaced", OLD)
    assert records(tmp_path) == []
    assert run(found=found, state="noted", check=True)["changed"] is True
    assert records(tmp_path) == []
    run(found=found, state="noted")
    run(found=found, state="admitted")
    noted, admitted = records(tmp_path)
    assert (noted["event"], noted["node"], noted["serial_after"]) == ("replaced", "gpu3", "SN-2")
    assert (admitted["event"], admitted["host_key"]) == ("admitted", NEW)


def test_interrupted_run_continues_and_records_nothing_twice(tmp_path: Path, run: Call) -> None:
    run(found=run(), state="noted")
    (tmp_path / "ssh_host_keys.json").write_text(json.dumps([{**LEDGER[0], "key": NEW}]))
    found = run()
    assert (found.get("failed"), found["event"]) == (None, "")
    assert run(found=found, state="noted")["changed"] is False
    assert len(records(tmp_path)) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"key": OLD}, "gpu3 (serial SN-2): it is still the old machine"),
        ({"key": GONE}, "gpu3 (serial SN-2): its host key is revoked"),
        ({"error": UNKNOWN}, f"gpu3: its host key is unknown (found ssh-ed25519 {fingerprint(NEW)})"),
        (
            {"error": "Connection timed out"},
            "gpu3: the machine does not answer: Connection timed out. Remedy: power it",
        ),
        ({"fingerprints": ["SHA256:other"]}, f"no host key matches (found ssh-ed25519 {fingerprint(NEW)})"),
        ({"key": GONE, "fingerprints": [fingerprint(GONE)]}, "gpu3: its host key is revoked"),
    ],
)
def test_invalid_input_is_refused(tmp_path: Path, run: Call, given: dict[str, Any], said: str) -> None:
    found = run(**given)
    assert said in found["msg"]
    assert (found["failed"], found["busbar_refused"]) == (True, True)
    assert not (tmp_path / "known_hosts").exists()


def test_key_with_a_confirmed_fingerprint_is_trusted(tmp_path: Path, run: Call) -> None:
    assert run(fingerprints=[fingerprint(NEW)], check=True)["changed"] is True
    assert not (tmp_path / "known_hosts").exists()
    assert run(fingerprints=[fingerprint(NEW)])["changed"] is True
    assert (tmp_path / "known_hosts").read_text() == f"gpu3,10.0.0.13 {NEW}\n"


def test_same_machine_is_provisioned_again_only_by_option(run: Call) -> None:
    assert run(OLD, allow_same=True)["event"] == "provisioned again"
