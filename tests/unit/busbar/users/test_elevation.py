"""Tests of temporary root rights: valid requests, and the messages of a site."""

from __future__ import annotations

import argparse
import datetime as dt

import pytest
from busbar.errors import UsageError
from busbar.users.elevation import elevation, elevation_line

NOW = dt.datetime(2026, 3, 1, 22, 30, 5, tzinfo=dt.timezone(dt.timedelta(hours=1)))


def _asked(
    user: str = "erin", duration: str | None = None, reason: str | None = None, *, end: bool = False
) -> dict[str, str]:
    return elevation(argparse.Namespace(user=user, duration=duration, reason=reason, end=end), NOW)


def test_expiry_is_a_time_in_utc() -> None:
    asked = _asked(duration="4h", reason=" OPS-17: fabric ")
    assert asked == {"elevate_user": "erin", "elevate_until": "20260302013005Z", "elevate_reason": "OPS-17: fabric"}
    assert elevation_line(asked) == "erin has root rights until 2026-03-02 01:30 UTC: OPS-17: fabric"
    assert _asked(duration="1440m", reason="x")["elevate_until"] == "20260302213005Z"


def test_rights_are_revoked() -> None:
    asked = _asked(end=True)
    assert asked == {"elevate_user": "erin", "elevate_until": "", "elevate_reason": ""}
    assert elevation_line(asked) == "erin: temporary root rights revoked"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"user": "root", "duration": "1h", "reason": "x"}, "is not a valid user name"),
        ({"user": "erin ALL", "duration": "1h", "reason": "x"}, "is not a valid user name"),
        ({"user": "%wheel", "duration": "1h", "reason": "x"}, "is not a valid user name"),
        ({}, "set the duration and the reason"),
        ({"duration": "4h"}, "set the duration and the reason"),
        ({"duration": "4h", "reason": "  "}, "set the duration and the reason"),
        ({"reason": "x"}, "set the duration and the reason"),
        ({"duration": "25h", "reason": "x"}, "at most 24h"),
        ({"duration": "1441m", "reason": "x"}, "at most 24h"),
        ({"duration": "0m", "reason": "x"}, "minutes or hours"),
        ({"duration": "-1h", "reason": "x"}, "minutes or hours"),
        ({"duration": "4", "reason": "x"}, "minutes or hours"),
        ({"duration": "1d", "reason": "x"}, "minutes or hours"),
        ({"duration": "4h", "reason": "x\nALL ALL=(ALL) ALL"}, "one line"),
        ({"duration": "4h", "reason": "x" * 201}, "at most 200"),
        ({"duration": "4h", "reason": "{{ lookup('pipe', 'id') }}"}, "without {{"),
        ({"end": True, "duration": "4h"}, "remove --for"),
        ({"end": True, "reason": "x"}, "remove --for"),
    ],
)
def test_invalid_values_are_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        _asked(**given)  # type: ignore[arg-type]
