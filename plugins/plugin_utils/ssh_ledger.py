"""Read and write the ledger of certified SSH host keys, a file in the secrets directory."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

NAME = "ssh_host_keys.json"
_FIELDS = {"host", "key", "authority", "days", "retired"}
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

    A key is retired if its host has a different key or was removed from the inventory. Its entry is deleted once all
    its certificates have expired, or hosts stop trusting the authority that signed them.

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


def read_ledger(directory: Path) -> list[dict[str, Any]]:
    """Return the entries; empty if the ledger does not exist yet.

    Raises:
        ValueError: if the file is damaged; the message names it and the remedy.
    """
    path = directory / NAME
    try:
        entries = json.loads(path.read_text())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as exc:
        raise _damaged(path, str(exc)) from exc
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and entry.keys() >= _FIELDS for entry in entries
    ):
        raise _damaged(path, "does not contain a list of keys")
    return entries


def write_ledger(directory: Path, entries: list[dict[str, Any]]) -> None:
    """Replace the ledger atomically, with mode 0600.

    Raises:
        ValueError: if it cannot be written.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{NAME}.", dir=directory)
        with os.fdopen(descriptor, "w") as stream:
            json.dump(entries, stream, indent=1)
            stream.write("\n")
        Path(name).replace(directory / NAME)
    except OSError as exc:
        message = f"{directory / NAME} cannot be written: {exc.strerror}"
        raise ValueError(message) from exc


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(f"{path}: {reason}: restore it from a backup, or remove it to start without revoked host keys")
