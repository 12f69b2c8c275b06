"""Tests of parsing package manager output during the uninstallation."""

from __future__ import annotations

from ansible_collections.busbar.cluster.plugins.module_utils.uninstall.remove_packages import (
    parse_history,
    parse_simulation,
    parse_transactions,
)


def test_apt_simulation_is_parsed() -> None:
    text = "NOTE: this is only a simulation\nPurg slurmd [24.11]\nRemv libmunge2:amd64 [0.5]\nInst ntp (1.2 Debian)\n"
    assert parse_simulation(text) == ({"slurmd", "libmunge2"}, {"ntp"})


APT_HISTORY = """
Start-Date: 2026-11-26  01:32:12
Commandline: apt-get -o Dir::Log::History=/var/log/apt/history-busbar.log -y install chrony
Requested-By: admin (1000)
Install: chrony:amd64 (4.6.1-3), libedit2:amd64 (1:3.1, automatic), gone:all (1)
Upgrade: libc6:amd64 (2.41-1, 2.41-2)
Remove: systemd-timesyncd:amd64 (257.8-1)
End-Date: 2026-11-26  01:32:32

Start-Date: 2026-11-26  01:40:12
Commandline: apt-get -y purge gone
Purge: gone:all (1)
"""
# Output of dnf 4.
DNF_HISTORY = """\
Transaction ID : 3
Begin time     : Thu Nov 26 01:32:12 2026
User           : root <root>
Return-Code    : Success
Command Line   : --comment=busbar -y install munge
Comment        : busbar
Packages Altered:
    Install munge-0.5.13-13.el9.x86_64      @appstream
    Install munge-libs-0.5.13-13.el9.x86_64 @appstream
    Removed ntp-refclock-0.5-1.el9.x86_64   @@System
-------------------------------------------------------------------------------
Transaction ID : 4
Command Line   : install htop
Packages Altered:
    Install htop-3.3.0-1.el9.x86_64 @epel
"""


def test_history_of_the_package_manager_is_parsed() -> None:
    assert parse_history(APT_HISTORY) == ({"chrony": "manual", "libedit2": "automatic"}, {"systemd-timesyncd"})
    assert parse_transactions(DNF_HISTORY) == ({"munge": "manual", "munge-libs": "manual"}, {"ntp-refclock"})
