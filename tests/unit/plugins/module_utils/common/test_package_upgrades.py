"""Tests of which upgrades are available, selected and held."""

from __future__ import annotations

from pathlib import Path

import yaml
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_upgrades import (
    FAMILIES,
    Upgrade,
    chosen,
    held_patterns,
    parse_apt,
    parse_dnf,
)

# Output of `apt-get --simulate upgrade` on Debian 12 and Ubuntu 24.04.
APT = """\
NOTE: This is only a simulation!
Reading package lists...
Inst base-files [12.4+deb12u9] (12.4+deb12u10 Debian:12.10/oldstable [amd64])
Conf base-files (12.4+deb12u10 Debian:12.10/oldstable [amd64])
Remv old-thing [1.0]
Inst libssl3 [3.0.15-1~deb12u1] (3.0.16-1~deb12u1 Debian:12.11/oldstable, Debian-Security:12/oldstable-security [amd64])
Inst libc6:i386 [2.39-0ubuntu8.3] (2.39-0ubuntu8.4 Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security [i386]) []
Inst linux-image-6.1.0-35-amd64 (6.1.137-1 Debian-Security:12/oldstable-security [amd64])
Inst slurmd [22.05.8-4+deb12u2] (22.05.8-4+deb12u3 Debian-Security:12/oldstable-security [amd64])
"""
DNF = """\

bash.x86_64                      5.1.8-9.el9                        baseos
kernel-core.x86_64               5.14.0-570.22.1.el9_6              baseos
python3.12-libs.x86_64           3.12.9-1.el9_6.1                   appstream
Obsoleting Packages
iptables-legacy.x86_64           1.8.10-11.1.el9                    epel
    iptables-legacy.x86_64       1.8.10-5.el9                       @epel
"""


def test_apt_upgrades_are_parsed_with_their_origin() -> None:
    found, removed = parse_apt(APT)
    assert removed == ["old-thing"]
    assert [(each.name, each.security) for each in found] == [
        *(("base-files", False), ("libssl3", True), ("libc6:i386", True)),
        *(("linux-image-6.1.0-35-amd64", True), ("slurmd", True)),
    ]
    assert str(found[1]) == "libssl3 3.0.15-1~deb12u1 -> 3.0.16-1~deb12u1"
    assert found[3].before == ""


def test_dnf_upgrades_exclude_the_obsoletes() -> None:
    assert parse_dnf(DNF) == [
        Upgrade("bash", "5.1.8-9.el9"),
        Upgrade("kernel-core", "5.14.0-570.22.1.el9_6"),
        Upgrade("python3.12-libs", "3.12.9-1.el9_6.1"),
    ]


def test_wrapped_dnf_lines_are_one_upgrade() -> None:
    # Format of fmtColumns in dnf 4.14 with columns of 32, 26 and 20.
    said = (
        "\nbash.x86_64                      5.1.8-9.el9                baseos\n"
        "python3-setuptools-wheel-of-a-site.noarch\n"
        "                                 53.0.0-13.el9_6.1          baseos\n"
        "container-tools-of-a-module.x86_64\n"
        "                                 2:4.9.4-18.module+el9.5.0+1\n"
        "                                                            appstream\n"
        "zlib.x86_64                      1.2.11-40.el9              baseos\n"
    )
    assert [(each.name, each.version) for each in parse_dnf(said)] == [
        ("bash", "5.1.8-9.el9"),
        ("python3-setuptools-wheel-of-a-site", "53.0.0-13.el9_6.1"),
        ("container-tools-of-a-module", "2:4.9.4-18.module+el9.5.0+1"),
        ("zlib", "1.2.11-40.el9"),
    ]
    assert parse_dnf("\nObsoleting Packages\na.x86_64  1-1  b\n    c.x86_64  1-1  @b\n") == []


def test_held_packages_are_reported_and_not_installed() -> None:
    made, held = chosen(parse_apt(APT)[0], held_patterns(["kernel", "slurm"]), security=True)
    assert [each.name for each in made] == ["libssl3", "libc6:i386"]
    assert [each.name for each in held] == ["linux-image-6.1.0-35-amd64", "slurmd"]
    made, held = chosen(parse_dnf(DNF), held_patterns(["kernel"]), security=False)
    assert ([each.name for each in made], [each.name for each in held]) == (
        ["bash", "python3.12-libs"],
        ["kernel-core"],
    )
    assert chosen(parse_dnf(DNF), (), security=False)[1] == []


def test_role_security_updates_holds_the_same_families() -> None:
    role = Path(__file__).parents[5] / "roles/security_updates/vars/main.yml"
    beginnings = yaml.safe_load(role.read_text(encoding="utf-8"))["__security_updates_families"]
    assert {family: tuple(f"{name}*" for name in names) for family, names in beginnings.items()} == FAMILIES
