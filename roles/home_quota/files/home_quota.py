"""The program `busbar-home-quota`: sets the quota of each home directory on this file server."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pwd
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ansible_collections.busbar.cluster.plugins.module_utils.storage.home_quota import (
    Limit,
    QuotaError,
    decide,
    file_system,
    limit_of,
    parse_report,
    run_tool,
    setquota_input,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Lower UIDs belong to system users.
_FIRST_PERSON = 1000


class Settings(NamedTuple):
    """The settings that the role writes. `state` is the file with the quotas of earlier runs."""

    path: str
    default: str
    users: Mapping[str, str]
    soft_percent: int
    state: str


def read_settings(path: Path) -> Settings:
    """Return the settings.

    Raises:
        QuotaError: the file, which the role writes, cannot be read.
    """
    try:
        return Settings(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as exc:
        message = f"{path}: {exc}. Run `busbar provision storage --tags home_quota`, which writes it."
        raise QuotaError(message) from exc


def owners_of(path: str) -> dict[int, str]:
    """Return the names of the users who own a directory in a folder, by UID; '' for a UID without a name."""
    homes = [entry for entry in Path(path).iterdir() if entry.is_dir()] if Path(path).is_dir() else []
    numbers = {home.lstat().st_uid for home in homes if not home.is_symlink()}
    found = {}
    for number in sorted(numbers):
        if number < _FIRST_PERSON:
            continue
        try:
            found[number] = pwd.getpwuid(number).pw_name
        except KeyError:
            found[number] = ""
    return found


def _read_made(path: Path) -> dict[int, list[Limit]]:
    """Return the quotas of earlier runs, including those that an interrupted run was setting.

    Raises:
        QuotaError: the file cannot be read. Without it the program cannot distinguish its quotas from an admin's.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {int(number): [Limit(*limit) for limit in limits] for number, limits in kept.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as exc:
        message = f"cannot read {path} ({exc}). Restore it; without it all existing quotas count as set by an admin."
        raise QuotaError(message) from exc


def _keep(path: Path, made: Mapping[int, Sequence[Limit]]) -> None:
    new = path.with_suffix(".new")
    with new.open("w", encoding="utf-8") as file:
        json.dump({str(number): limits for number, limits in sorted(made.items())}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def apply(settings: Settings, *, dry_run: bool) -> list[str]:
    """Set the quotas and return one line per change.

    Raises:
        QuotaError: nothing was changed.
    """
    target, state = file_system(settings.path), Path(settings.state)
    owners, made = owners_of(settings.path), _read_made(state)
    found = parse_report(run_tool(["repquota", "-u", "-n", "-O", "csv", target]))
    default = limit_of(settings.default, settings.soft_percent) if settings.default else None
    declared = {name: limit_of(size, settings.soft_percent) for name, size in settings.users.items()}
    steps = decide(owners, found, made, default, declared)
    if steps.limits and not dry_run:
        new = {number: [limit] for number, limit in steps.limits.items()}
        # Record the quotas first, so that the next run does not mistake those of an interrupted run for an admin's.
        _keep(state, made | {number: made.get(number, []) + limits for number, limits in new.items()})
        run_tool(["setquota", "-u", "-b", target], setquota_input(steps.limits, found))
        _keep(state, made | new)
    who = {number: name or str(number) for number, name in owners.items()}
    return [
        *(f"{who[number]}: {_format_limit(limit)}" for number, limit in steps.limits.items()),
        *(
            f"{who[number]}: keeps {_format_limit(limit)}, which was set manually"
            for number, limit in steps.kept.items()
        ),
        *(f"{name}: has no home in {settings.path} yet" for name in steps.unknown),
    ]


def _format_limit(limit: Limit) -> str:
    return f"{limit.hard >> 10} MiB" if limit.hard else "no limit"


def main(arguments: Sequence[str], config: Path) -> int:
    """Run the program and return the exit status: 0 for success, 1 if nothing was changed."""
    parser = argparse.ArgumentParser(prog="busbar-home-quota", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="show planned changes")
    dry_run = parser.parse_args(arguments).dry_run
    try:
        settings = read_settings(config)
        with config.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lines = apply(settings, dry_run=dry_run)
    except (QuotaError, OSError, ValueError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    for line in lines:
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path("/etc/busbar/home_quota.json")))
