"""Checks the options of the sssd role: the source of users in addition to the declared ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    _Wrong = tuple[str, str, str]

SOURCES = ("declared", "ldap_server", "external")
# Quotes and escapes are invalid, because the name is written to files of slapd and sssd.
_SUFFIX = re.compile(r"(dc|o|ou)=[A-Za-z0-9 ._-]+(,(dc|o|ou|c)=[A-Za-z0-9 ._-]+)*")
_GROUP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]*")
_HIGHEST_PORT = 65535
_LOWEST_ID = 1000


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return the problems with the source of users.

    Args:
        options: `identity_source`, `identity_server`, `servers` (hosts of the group ldap_server), `identity_port`,
            `identity_suffix`, `identity_groups`, `identity_locked_group`, `sssd_uris`, `sssd_base`, `sssd_bind_dn`,
            `sssd_start_tls`, `sssd_min_id`, `sssd_cache_seconds`, and `has_password`: whether `sssd_bind_dn` has a
            password.
        cluster: the `host`, and `known`, the hosts of the inventory.
    """
    host, known = cluster["host"], cluster["known"]
    source = options["identity_source"]
    if source not in SOURCES:
        return [make_problem([host], "identity_source", f"{source!r} is not known", f"use {', '.join(SOURCES)}")]
    if source == "declared":
        return []
    wrong = [*(_own(options, known) if source == "ldap_server" else _external(options)), *_client(options)]
    return [make_problem([host], key, problem, remedy) for key, problem, remedy in wrong]


def _own(options: Known, known: Collection[str]) -> Iterator[_Wrong]:
    server = options["identity_server"]
    if not server:
        yield "identity_server", "no host runs the directory server", "add a host to the group ldap_server"
    elif server not in known:
        yield "identity_server", f"{server!r} is not in the inventory", "use the name of a host in the inventory"
    if more := [each for each in options["servers"] if each != server]:
        yield (
            "ldap_server",
            f"the group ldap_server has several hosts (found also {', '.join(more)}, expected only {server})",
            (
                "remove the others from the group and run `systemctl disable --now slapd` on them; for a directory with"
                " replicas use identity_source: external"
            ),
        )
    if not 0 < int(options["identity_port"]) <= _HIGHEST_PORT:
        yield "identity_port", f"{options['identity_port']} is not a valid port", "use 636, the default of LDAPS"
    suffix = str(options["identity_suffix"])
    if not _SUFFIX.fullmatch(suffix):
        yield (
            "identity_suffix",
            f"{suffix!r} is not a valid directory suffix",
            "use a suffix such as dc=cluster,dc=internal",
        )


def _external(options: Known) -> Iterator[_Wrong]:
    if not options["sssd_uris"]:
        yield "sssd_uris", "is empty, but identity_source is external", "set [ldaps://HOST]"
    if not options["sssd_base"]:
        yield (
            "sssd_base",
            "is empty, but identity_source is external",
            "set the search base of users, such as dc=example,dc=org",
        )


def _client(options: Known) -> Iterator[_Wrong]:
    for uri in map(str, options["sssd_uris"]):
        yield from _address(uri, start_tls=bool(options["sssd_start_tls"]))
    if bool(options["sssd_bind_dn"]) != bool(options["has_password"]):
        yield "sssd_bind_dn", "must be set together with sssd_bind_password", "set both or none"
    if not options["identity_groups"]:
        problem = "is empty, so all users of the directory could log in"
        yield "identity_groups", problem, "list the directory groups whose members may log in"
    for key in ("identity_groups", "identity_locked_group"):
        names = options[key] if key == "identity_groups" else filter(None, [options[key]])
        for name in names:
            if not _GROUP.fullmatch(str(name)):
                yield key, f"{name!r} is not a valid group name", "use the name in the directory"
    if int(options["sssd_min_id"]) < _LOWEST_ID:
        remedy = "set at least 1000, because hosts use lower IDs, for example for the group sudo"
        yield "sssd_min_id", f"{options['sssd_min_id']} is below {_LOWEST_ID}", remedy
    if int(options["sssd_cache_seconds"]) < 1:
        yield "sssd_cache_seconds", f"{options['sssd_cache_seconds']} is below 1", "set seconds, such as 600"


def _address(uri: str, *, start_tls: bool) -> Iterator[_Wrong]:
    if not _is_address(uri):
        yield "sssd_uris", f"{uri!r} is not a valid LDAP URI", "use ldaps://HOST or ldaps://HOST:PORT"
    elif uri.startswith("ldap:") and not start_tls:
        yield (
            "sssd_uris",
            f"{uri} does not use TLS, so passwords would be sent as plain text",
            "use ldaps://…, or set sssd_start_tls: true if the directory supports StartTLS",
        )
    elif uri.startswith("ldaps:") and start_tls:
        yield "sssd_start_tls", f"is true, but {uri} already uses TLS", "use ldap://…, or set sssd_start_tls to false"


def _is_address(uri: str) -> bool:
    try:
        parts = urlsplit(uri)
        return bool(parts.scheme in {"ldap", "ldaps"} and parts.hostname and parts.path in {"", "/"}) and (
            parts.port is None or parts.port > 0
        )
    except ValueError:
        return False
