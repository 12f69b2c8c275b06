"""Which packages an uninstallation takes away."""

from __future__ import annotations

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.packages import (
    Package,
    choose_packages,
    parse_conffiles,
    parse_left_over,
    parse_simulation,
    parse_status,
)


def package(*needs: str, provides: tuple[str, ...] = (), essential: bool = False) -> Package:
    return {"needs": [need.split("|") for need in needs], "provides": list(provides), "essential": essential}


HOST = {
    "libc6": package(essential=True),
    "slurmd": package("libc6", "libmunge2", "munge"),
    "munge": package("libmunge2"),
    "libmunge2": package("libc6"),
}
BROUGHT = {"slurmd": "manual", "munge": "automatic", "libmunge2": "automatic"}


@pytest.mark.parametrize(
    ("more", "automatic", "going", "kept"),
    [
        ({}, ["munge", "libmunge2"], ["libmunge2", "munge", "slurmd"], {}),
        # A package of the admin's that needs one of ours, directly or by a provided name.
        (
            {"libmunge-dev": package("libmunge2")},
            ["munge", "libmunge2"],
            ["munge", "slurmd"],
            {"libmunge2": "needed by libmunge-dev"},
        ),
        (
            {"theirs": package("authentication"), "munge": package("libmunge2", provides=("authentication",))},
            ["munge", "libmunge2"],
            ["slurmd"],
            {"munge": "needed by theirs", "libmunge2": "needed by munge"},
        ),
        # An alternative that stays will do.
        ({"theirs": package("munge|libc6")}, ["munge", "libmunge2"], ["libmunge2", "munge", "slurmd"], {}),
        # A dependency that somebody asked for by name since.
        ({}, ["libmunge2"], ["slurmd"], {"munge": "installed by name since", "libmunge2": "needed by munge"}),
    ],
)
def test_choice(more: dict[str, Package], automatic: list[str], going: list[str], kept: dict[str, str]) -> None:
    assert choose_packages(BROUGHT, ["libc6"], {**HOST, **more}, automatic) == (going, kept)


def test_what_was_there_before_stays() -> None:
    going, kept = choose_packages(BROUGHT, ["libc6", "munge"], HOST, ["munge", "libmunge2"])
    assert going == ["slurmd"]
    assert kept == {"libmunge2": "needed by munge"}


def test_what_dpkg_says() -> None:
    rows = (
        "munge\tinstalled\tinstall\tlibc6 (>= 2.38), adduser | passwd:any\tauth (= 1), xy\tno",
        "old\tconfig-files\tdeinstall\t, \t\t",
        "libnl\tinstalled\tpurge\t, libc6\t\t",
    )
    text = "".join(f"{row}\n" for row in rows)
    assert parse_status(text) == {
        "munge": package("libc6", "adduser|passwd", provides=("auth", "xy")),
        "libnl": package("libc6"),
    }
    # After a removal that was killed.
    assert parse_left_over(text) == (["old"], ["libnl"])
    with pytest.raises(ValueError, match="not enough values"):
        parse_status("dpkg-query: something else\n")


def test_what_apt_would_do() -> None:
    text = "NOTE: this is only a simulation\nPurg slurmd [24.11]\nRemv libmunge2:amd64 [0.5]\nInst ntp (1.2 Debian)\n"
    assert parse_simulation(text) == ({"slurmd", "libmunge2"}, {"ntp"})


def test_configuration_files() -> None:
    text = f" /etc/default/munge {'a' * 32}\n /etc/gone newconffile\n /etc/old {'b' * 32} obsolete\n"
    assert parse_conffiles(text) == {"/etc/default/munge": "a" * 32}
