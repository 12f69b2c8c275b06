"""Validates the requests of `busbar user elevate` for temporary root privileges."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

from busbar.errors import UsageError
from busbar.users.request import checked_name

if TYPE_CHECKING:
    import argparse

LONGEST = dt.timedelta(hours=24)
_UNITS = {"m": "minutes", "h": "hours"}
_DURATION = re.compile(r"([1-9][0-9]{0,4})([mh])")
_MAX_REASON = 200


def elevation(args: argparse.Namespace, now: dt.datetime) -> dict[str, Any]:
    """Return the playbook variables that grant or revoke the privileges.

    Args:
        args: `user`, and `duration` with `reason`, or `end`.
        now: the current time, with a time zone.

    Raises:
        UsageError: an argument is missing or invalid.
    """
    name = checked_name(args.user)
    if args.end:
        if args.duration or args.reason:
            message = "--end revokes the rights at once: remove --for and --reason"
            raise UsageError(message)
        return {"elevate_user": name, "elevate_until": "", "elevate_reason": ""}
    reason = (args.reason or "").strip()
    if not args.duration or not reason:
        message = (
            f'busbar user elevate {name}: set the duration and the reason, such as --for 4h --reason "OPS-17: fabric"'
        )
        raise UsageError(message)
    # The reason appears in a comment in a sudoers file and in the journal, and Ansible would evaluate templates in it.
    if not reason.isprintable() or len(reason) > _MAX_REASON or any(mark in reason for mark in ("{{", "{%", "{#")):
        message = f"--reason: use one line of at most {_MAX_REASON} printable characters, without {{{{, {{% and {{#"
        raise UsageError(message)
    until = (now + _duration(args.duration)).astimezone(dt.timezone.utc)
    return {"elevate_user": name, "elevate_until": f"{until:%Y%m%d%H%M%SZ}", "elevate_reason": reason}


def elevation_line(variables: dict[str, Any]) -> str:
    """Return one line that describes the request."""
    if not variables["elevate_until"]:
        return f"{variables['elevate_user']}: temporary root rights revoked"
    until = dt.datetime.strptime(variables["elevate_until"], "%Y%m%d%H%M%S%z")
    return (
        f"{variables['elevate_user']} has root rights until {until:%Y-%m-%d %H:%M} UTC: {variables['elevate_reason']}"
    )


def _duration(text: str) -> dt.timedelta:
    found = _DURATION.fullmatch(text)
    length = dt.timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    if length is None or length > LONGEST:
        message = f"--for {text}: use minutes or hours, at most 24h, such as 30m or 4h"
        raise UsageError(message)
    return length
