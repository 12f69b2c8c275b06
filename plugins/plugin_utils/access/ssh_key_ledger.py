"""Ledger of the certified SSH host keys: the current keys, and the retired keys, which are revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_DAY_S = 86400
Entry = dict[str, Any]


def updated_ledger(  # noqa: PLR0913 - each is compared with the entries
    ledger: Sequence[Mapping[str, Any]],
    present: Mapping[str, str],
    hosts: Collection[str],
    trusted: Sequence[str],
    *,
    now: int,
    days: int,
) -> list[Entry]:
    """Return the updated ledger.

    A key is retired if its host has a different key or was removed from the inventory. Its entry is deleted when all
    its certificates have expired or their authority is no longer trusted.

    Args:
        ledger: entries with `host`, `key`, `authority`, `days` and `retired` (seconds since 1970, or None).
        present: the current key of each host of this run.
        hosts: the hosts of the inventory.
        trusted: public keys of the certificate authorities, the signing one first.
        now: seconds since 1970.
        days: validity of certificates in days.
    """
    shown = {host: _plain(key) for host, key in present.items() if host in hosts}
    kept = [_judged(dict(entry), shown, hosts, now) for entry in ledger if entry["authority"] in trusted]
    for host in hosts:
        _restore(kept, host, shown)
    for host, key in shown.items():
        entry = next((entry for entry in kept if (entry["host"], entry["key"]) == (host, key)), None)
        if entry is None:
            kept.append({"host": host, "key": key, "authority": trusted[0], "days": days, "retired": None})
        else:
            entry |= {"authority": trusted[0], "days": max(days, int(entry["days"])), "retired": None}
    living = [entry for entry in kept if entry["retired"] is None or now <= _last_end(entry)]
    return sorted(living, key=lambda entry: (entry["host"], entry["key"]))


def former_keys(ledger: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the retired keys, except those that a host currently uses."""
    present = set(current_keys(ledger).values())
    return sorted({str(entry["key"]) for entry in ledger if entry["retired"] is not None} - present)


def current_keys(ledger: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the current key of each host."""
    return {str(entry["host"]): str(entry["key"]) for entry in ledger if entry["retired"] is None}


def _judged(entry: Entry, shown: Mapping[str, str], hosts: Collection[str], now: int) -> Entry:
    """Return an entry; it is marked as retired if its host has a different key or was removed from the inventory."""
    gone = entry["host"] not in hosts or shown.get(entry["host"], entry["key"]) != entry["key"]
    if gone and entry["retired"] is None:
        entry["retired"] = now
    return entry


def _restore(entries: list[Entry], host: str, shown: Mapping[str, str]) -> None:
    """Restore the last key of an unreachable host that was added to the inventory again."""
    own = [entry for entry in entries if entry["host"] == host]
    if own and host not in shown and all(entry["retired"] is not None for entry in own):
        max(own, key=lambda entry: int(entry["retired"]))["retired"] = None


def _last_end(entry: Entry) -> int:
    """Return when the last certificate of a retired key expires, in seconds since 1970."""
    return int(entry["retired"]) + (int(entry["days"]) + 1) * _DAY_S


def _plain(key: str) -> str:
    return " ".join(key.split()[:2])
