"""Tests of the arguments of faults."""

from __future__ import annotations

import pytest
from busbar.errors import UsageError
from busbar.sandbox.faults import parse_rate


@pytest.mark.parametrize(
    ("text", "bits"),
    [("1gbit", 10**9), ("100mbit", 10**8), ("2.5Gbit", 2_500_000_000), (" 64kbit ", 64_000)],
)
def test_rates(text: str, bits: int) -> None:
    assert parse_rate(text) == bits


@pytest.mark.parametrize("text", ["", "1", "gbit", "-1gbit", "0mbit", "1gb", "1 gbit", "nan mbit", "1e3mbit"])
def test_malformed_rates_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 1gbit"):
        parse_rate(text)
