"""Checks the options of the fail2ban role before the role changes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...plugins.plugin_utils.access.networks import lies_in, network
from ...plugins.plugin_utils.role_checks import Known, Problem, make_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_LEAST = {"max_retry": 1, "find_time_s": 1, "ban_time_s": 1}


def check(options: Known, cluster: Known) -> list[Problem]:
    """Return invalid options, and options that could ban the provisioning host.

    Args:
        options: `cluster`, `trusted`, `max_retry`, `find_time_s`, `ban_time_s`: the options without their prefix.
        cluster: the `host`, and `seen`, which it printed: `from ADDRESS`, the source of this run's SSH connection.
    """
    wrong = [*_bounds(options), *_networks(options), *_shut_out(options, cluster["seen"])]
    return [make_problem([cluster["host"]], f"fail2ban_{key}", problem, remedy) for key, problem, remedy in wrong]


def _bounds(options: Known) -> Iterator[tuple[str, str, str]]:
    for key, least in _LEAST.items():
        if int(options[key]) < least:
            yield (
                key,
                f"{options[key]} is below {least}",
                "set a larger number, or disable fail2ban with fail2ban_enabled: false",
            )


def _networks(options: Known) -> Iterator[tuple[str, str, str]]:
    for text in options["trusted"]:
        if network(text) is None:
            yield "trusted", f"{text!r} is not a valid IP address or network", "use a network such as 10.0.0.0/24"


def _shut_out(options: Known, seen: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for line in seen:
        word, _, address = line.partition(" ")
        if word == "from" and address and not lies_in(address, [*options["cluster"], *options["trusted"]]):
            problem = f"lacks {address}, the source of this run, which a few failed logins would ban"
            yield "trusted", problem, f"add it or its network, such as fail2ban_trusted: [{address}]"
