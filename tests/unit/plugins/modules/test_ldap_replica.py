"""A replica that follows, one that is behind, and one that follows no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.access.ldap_tools import SOCKET, LdapError
from ansible_collections.busbar.cluster.plugins.modules import ldap_replica

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, NEW = "20261125040000.000001Z#000000#000#000000", "20261125040000.000002Z#000000#000#000000"
GIVEN = {"suffix": "dc=x", "server_uri": "ldaps://ctl:636", "reader": "cn=reader", "reader_password": "word"}
GIVEN |= {"tls_uri": "ldaps://login:636", "tls_ca_file": "/ca.crt"}


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], list[str]]:
    """Wait for nothing, with the newest change of the replica and of its server."""

    def run(own: str, server: str) -> list[str]:
        monkeypatch.setattr(ldap_replica, "wait_for", lambda *_: None)
        monkeypatch.setattr(ldap_replica, "numbers", lambda found, _: [own if found.uri == SOCKET else server])
        return ldap_replica.follow(SimpleNamespace(params={**GIVEN, "wait_s": 0}))

    return run


def test_one_that_has_all_is_done(follow: Callable[[str, str], list[str]]) -> None:
    assert follow(NEW, NEW) == [NEW]


def test_one_that_does_not_follow_is_told(follow: Callable[[str, str], list[str]]) -> None:
    with pytest.raises(LdapError, match="did not get the changes of ldaps://ctl:636 within 0 seconds"):
        follow(OLD, NEW)


def test_one_that_is_ahead_is_told_with_what_to_type(follow: Callable[[str, str], list[str]]) -> None:
    with pytest.raises(LdapError, match=r"mv /var/lib/ldap /var/lib/ldap\.before"):
        follow(NEW, OLD)
