"""Tests of the cluster's LDAP directory content and of the calls of ldapsearch and similar tools."""

from __future__ import annotations

import base64
import stat
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.ldap_tools import (
    NO_SUCH_OBJECT,
    Connection,
    LdapError,
    add_ldif,
    escaped,
    parse_ldif,
)

if TYPE_CHECKING:
    from pathlib import Path


def _decoded(ldif: str) -> list[str]:
    return [
        f"{name}: {base64.b64decode(value).decode()}" if ":: " in line else line
        for line in ldif.splitlines()
        for name, _, value in [line.partition(":: ")]
    ]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a fake ldapsearch that records its arguments and its password."""
    path = tmp_path / "ldapsearch"
    path.write_text(
        "#!/bin/bash\nprintf '%s\\n' \"$@\" >${0%/*}/arguments\nenv >${0%/*}/environment\n"
        'for i in "$@"; do case $i in /dev/fd/*) cat "$i" >${0%/*}/password;; esac; done\n'
        'cat ${0%/*}/answer; cat ${0%/*}/said >&2; exit "$(cat ${0%/*}/code)"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    for name, text in {"answer": "", "said": "", "code": "0"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_no_password_is_on_the_command_line(tool: Path) -> None:
    (tool / "answer").write_text("dn: uid=erin\nuid: erin\n\n")
    there = Connection("ldaps://ctl", ca_file="/ca.crt", dn="cn=reader", password="pass word")  # noqa: S106
    assert there.search("dc=x", "sub", "(uid=*)", "uid") == [{"dn": ["uid=erin"], "uid": ["erin"]}]
    arguments = (tool / "arguments").read_text()
    assert "pass word" not in arguments
    assert (tool / "password").read_text() == "pass word"
    assert arguments.startswith("-x\n-D\ncn=reader\n-y\n/dev/fd/")
    environment = (tool / "environment").read_text().splitlines()
    assert {"LDAPTLS_CACERT=/ca.crt", "LDAPTLS_REQCERT=demand"} <= {*environment}
    assert "pass word" not in "".join(environment)


def test_missing_paths_are_not_entries_and_failures_are_reported(tool: Path) -> None:
    (tool / "code").write_text(str(NO_SUCH_OBJECT))
    assert Connection("ldaps://ctl", start_tls=True).search("dc=x", "sub", "(uid=*)") == []
    assert "-ZZ" in (tool / "arguments").read_text().splitlines()
    (tool / "code").write_text("255")
    (tool / "said").write_text("ldap_sasl_bind(SIMPLE): Can't contact LDAP server (-1)\n")
    with pytest.raises(LdapError, match=r"^ldaps://ctl: ldap_sasl_bind\(SIMPLE\): Can't contact LDAP server \(-1\)$"):
        Connection("ldaps://ctl").search("dc=x", "sub", "(uid=*)")


def test_entries_of_ldif_text_are_parsed() -> None:
    text = "# a comment\ndn: cn=a\nCN: a\nmemberUid: erin\nmemberUid:: ZnLDtmxpY2g=\n\ndn: cn=b\n"
    assert parse_ldif(text) == [{"dn": ["cn=a"], "cn": ["a"], "memberuid": ["erin", "frölich"]}, {"dn": ["cn=b"]}]
    assert escaped("a*(b)\\") == "a\\2a\\28b\\29\\5c"


def test_value_cannot_add_ldif_lines() -> None:
    evil = "x\ndn: cn=other"
    assert evil not in add_ldif("cn=a,dc=x", {"description": [evil]})
    assert _decoded(add_ldif("cn=a,dc=x", {"gidNumber": ["1"]})) == [
        "dn: cn=a,dc=x",
        "changetype: add",
        "cn: a",
        "gidNumber: 1",
        "",
    ]
