"""Tests of the module that changes LDAP users, with fake ldap-utils."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.busbar.cluster.plugins.modules import directory_users
from executables import executable
from module_run import module_result

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = """\
case "$*" in
  *ou=people*) printf 'dn: uid=erin,ou=people,dc=x\\nuid: erin\\nuidNumber: 20101\\ngidNumber: 20000\\n\\n';;
  *) printf 'dn: cn=users,ou=groups,dc=x\\ncn: users\\ngidNumber: 20000\\n\\n';;
esac
"""


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:  # noqa: ANN401 - a function
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "passwd").write_text("root:x:0:0::/root:/bin/sh\nopc:x:20105:20105::/:/bin/sh\n")
    (tmp_path / "group").write_text("root:x:0:\n")
    monkeypatch.setattr(directory_users, "PASSWD", tmp_path / "passwd")
    monkeypatch.setattr(directory_users, "GROUP", tmp_path / "group")
    sent = tmp_path / "sent"

    def call(*changes: dict[str, Any], check: bool = False, tool: str = f"cat >>{sent}") -> tuple[dict[str, Any], str]:
        for name, text in {"ldapsearch": ANSWER, "ldapmodify": tool}.items():
            executable(tmp_path / name, f"#!/bin/sh\n{text}\n")
        given = {"suffix": "dc=x", "changes": list(changes), "login_groups": ["users"], "host": "ctl"}
        result = module_result(directory_users, capsys, **given, _ansible_check_mode=check)
        return result, sent.read_text() if sent.exists() else ""

    return call


def test_all_changes_are_sent_to_slapd_at_once(change: Any) -> None:  # noqa: ANN401
    dry, sent = change({"do": "add", "name": "frank"}, check=True)
    assert (dry["changed"], dry["messages"][0], sent) == (True, "add frank with UID 20106", "")
    done, sent = change({"do": "add", "name": "frank"})
    assert (done["changed"], done["messages"]) == (True, dry["messages"])
    assert sent.count("changetype: ") == 2
    assert [one["name"] for one in done["people"]] == ["erin", "frank"]


def test_one_invalid_change_prevents_all_changes(change: Any) -> None:  # noqa: ANN401
    done, sent = change({"do": "add", "name": "frank"}, {"do": "add", "name": "opc"})
    assert (done["changed"], sent) == (False, "")
    (problem,) = done["problems"]
    assert (problem["hosts"], problem["key"]) == (["ctl"], "busbar user")
    assert "/passwd with UID 20105 and cannot be added to the directory" in problem["problem"]


def test_refusal_of_the_directory_is_reported(change: Any) -> None:  # noqa: ANN401
    done, _ = change({"do": "add", "name": "frank"}, tool="echo 'ldap_add: Constraint violation (19)' >&2; exit 19")
    assert done["failed"]
    assert "Constraint violation" in done["msg"]
    assert "journalctl -u slapd on ctl" in done["msg"]
