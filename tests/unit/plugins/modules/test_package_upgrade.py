"""Tests of upgrades with dnf: commands, result, and the report of skipped packages."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.busbar.cluster.plugins.module_utils.common import package_commands
from ansible_collections.busbar.cluster.plugins.modules import packages
from played_module import Ended, PlayedModule

OFFER = "{name}.x86_64    {version}    baseos\n"


class Host:
    """dnf 4: `stuck` requires an excluded package, so `upgrade --nobest` skips it and exits 0."""

    def __init__(self, offers: dict[str, str], stuck: tuple[str, ...] = ()) -> None:
        """Store the packages of the repositories."""
        self.offers, self.stuck = offers, stuck
        self.commands: list[list[str]] = []

    def get_bin_path(self, name: str, **_: object) -> str | None:
        """Return the path of a program."""
        return f"/usr/bin/{name}" if name == "dnf" else None

    def run_command(self, command: list[str], **_: object) -> tuple[int, str, str]:
        """Apply the command to the fake host."""
        words = [word for word in command[1:] if word not in {"--setopt=exit_on_lock=True", "--comment=busbar"}]
        self.commands.append(words)
        assert {"check-update", "upgrade"} & {*words}, words
        if "check-update" in words:
            said = "".join(OFFER.format(name=name, version=version) for name, version in self.offers.items())
            return (100 if said else 0), said, ""
        excluded = [word.partition("=")[2].rstrip("*") for word in words if word.startswith("--exclude=")]
        kept = {n: v for n, v in self.offers.items() if n.startswith(tuple(excluded)) or n in self.stuck}
        self.offers = kept
        return 0, "Complete!\n", ""


def run(host: Host, patch: pytest.MonkeyPatch, *, check: bool = False, **params: object) -> dict[str, Any]:
    patch.setattr(package_commands, "lock_holder", lambda: None)
    given = {"upgrade": "security", "hold": ["kernel", "nvidia", "slurm"], **params}
    module = PlayedModule(host, given, check_mode=check)
    patch.setattr(packages, "AnsibleModule", lambda **_: module)
    with pytest.raises(Ended):
        packages.main()
    return module.result


def test_held_packages_are_excluded_and_skipped_ones_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host({"openssl": "3.0.7-29.el9", "kernel-core": "5.14.0-570.el9", "perf": "5.14.0-570.el9"}, ("perf",))
    done = run(host, monkeypatch)
    assert (done["changed"], done["upgraded"]) == (True, ["openssl 3.0.7-29.el9"])
    assert done["held"] == ["kernel-core 5.14.0-570.el9", "perf 5.14.0-570.el9"]
    asked, made, again = host.commands
    # Processing obsoletes would remove packages.
    assert all({"--security", "--setopt=obsoletes=False"} <= {*words} for words in host.commands)
    assert ("--refresh" in asked, "--refresh" in again) == (True, False)
    assert {"--nobest", "--exclude=kernel*", "--exclude=nvidia-*", "--exclude=slurm*"} <= {*made}


def test_upgrade_all_is_not_limited_to_advisories_and_check_mode_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host({"kernel-core": "5.14.0-570.el9"})
    done = run(host, monkeypatch, check=True, upgrade="all", hold=["slurm"])
    assert (done["changed"], done["upgraded"]) == (True, ["kernel-core 5.14.0-570.el9"])
    assert len(host.commands) == 1
    assert "--security" not in host.commands[0]
    assert run(Host({}), monkeypatch)["changed"] is False
