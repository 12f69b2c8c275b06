"""Tests of the entries of a new directory, and of its group IDs."""

from __future__ import annotations

import pytest
from role_files import value

GIVEN = {"identity_suffix": "dc=cluster,dc=internal", "identity_password": "word"}


@pytest.mark.parametrize(
    ("suffix", "classes", "attributes"),
    [
        ("dc=cluster,dc=internal", ["top", "dcObject", "organization"], {"o": "cluster"}),
        ("DC = cluster, dc=internal", ["top", "dcObject", "organization"], {"o": "cluster"}),
        ("o=cluster", ["top", "organization"], {}),
        ("ou=gpu,o=cluster", ["top", "organizationalUnit"], {}),
    ],
)
def test_top_entry_of_a_directory(suffix: str, classes: list[str], attributes: dict[str, str]) -> None:
    top, *_, reader = value("ldap_server", "__ldap_server_entries", **{**GIVEN, "identity_suffix": suffix})
    assert top == {"dn": suffix, "classes": classes, "attributes": attributes}
    assert reader["dn"] == f"cn=reader,ou=services,{suffix}"
    assert reader["attributes"] == {"userPassword": "word"}


@pytest.mark.parametrize(
    ("found", "highest"),
    [
        ({"msg": "Base not found"}, 19999),
        ({"results": [{"dn": "dc=a"}]}, 19999),
        (
            {"results": [{"dn": "a", "uidNumber": "1000", "gidNumber": "20000"}, {"dn": "b", "gidNumber": "20007"}]},
            20007,
        ),
    ],
)
def test_ids_follow_the_highest_uid_or_gid(found: dict[str, object], highest: int) -> None:
    assert value("ldap_server", "__ldap_server_highest", __ldap_server_found=found, **GIVEN) == highest


def test_groups_for_logins_and_for_locked_users() -> None:
    groups = {"identity_groups": ["staff", "guests"], "identity_locked_group": ""}
    base = "ou=groups,dc=cluster,dc=internal"
    assert value("ldap_server", "__ldap_server_groups", **groups, **GIVEN) == [f"cn=staff,{base}", f"cn=guests,{base}"]
