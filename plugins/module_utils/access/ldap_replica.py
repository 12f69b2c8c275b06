"""Whether a replica of a directory has what its server had."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["is_behind"]


def _newest(numbers: Iterable[str]) -> dict[str, str]:
    """The newest change by the server that made it: `TIME#COUNT#SERVER#MODIFICATION`, all of fixed width."""
    return {number.split("#")[2]: number for number in sorted(numbers) if number.count("#") == 3}  # noqa: PLR2004


def is_behind(own: Iterable[str], server: Iterable[str]) -> bool:
    """Say whether changes are missing.

    Args:
        own: values of `contextCSN` at the root of the replica.
        server: those of the server; none where it does not replicate.

    The form of the numbers is that of draft-chu-ldap-csn, section 2.
    """
    here, there = _newest(own), _newest(server)
    return not there or any(here.get(origin, "") < number for origin, number in there.items())
