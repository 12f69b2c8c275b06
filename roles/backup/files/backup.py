"""The program `busbar-backup`: hooks of its systemd unit, and commands that list, verify and restore snapshots."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.busbar.cluster.plugins.module_utils.backup.collect import MANIFEST, collect
from ansible_collections.busbar.cluster.plugins.module_utils.backup.repository import Repository
from ansible_collections.busbar.cluster.plugins.module_utils.backup.restore_parts import (
    PARTS,
    existing_data,
    place,
    refuse_present,
)
from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import (
    BackupError,
    NoSnapshotError,
    parts_of,
    read_settings,
)
from ansible_collections.busbar.cluster.plugins.module_utils.backup.verify import fetch, stage_of, verify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.busbar.cluster.plugins.module_utils.backup.settings import Settings

FAILED, NOT_THERE = 1, 3
_KNOWN = "repository"
_LAST, _PATHS, _OUTPUT = "last.json", "paths", "output"
_FETCHED = "restored"


def main(arguments: Sequence[str], configuration: Path) -> int:
    """Run one command, print a JSON object (text for `list`), and return the exit status."""
    given = _parser().parse_args(arguments)
    mask = os.umask(0o077)
    try:
        settings = read_settings(configuration)
        Path(settings.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        with (Path(settings.folder) / "lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = _COMMANDS[given.command](Repository(settings), given)
    except (BackupError, OSError) as error:
        sys.stderr.write(f"busbar-backup: {error}\n")
        return NOT_THERE if isinstance(error, NoSnapshotError) else FAILED
    finally:
        os.umask(mask)
    sys.stdout.write(result if isinstance(result, str) else json.dumps(result) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="busbar-backup", description="Make, verify and restore backups of this host.")
    commands = parser.add_subparsers(dest="command", required=True)
    init = commands.add_parser("init", help="create the repository if it does not exist")
    init.add_argument(
        "--new", action="store_true", help="create it even if the repository that this host used before is missing"
    )
    commands.add_parser("collect", help="collect the parts of a snapshot (called by the unit busbar-backup)")
    commands.add_parser("note", help="record the result of the unit busbar-backup (called by that unit)")
    commands.add_parser("list", help="list the snapshots of all hosts")
    proof = commands.add_parser("verify", help="restore a snapshot to temporary locations and compare it")
    proof.add_argument("--read-all", action="store_true", help="read and check all data of the repository")
    fetched = commands.add_parser("fetch", help="restore a snapshot into a folder and check it; change nothing else")
    for command in (proof, fetched):
        command.add_argument(
            "--snapshot", default="latest", help="snapshot ID (default: the newest snapshot of this host)"
        )
    put = commands.add_parser("place", help="install a part of the fetched snapshot")
    put.add_argument("part", choices=sorted(PARTS))
    put.add_argument("--replace", action="store_true", help="move existing data aside")
    return parser


def _init(repository: Repository, given: argparse.Namespace) -> dict[str, Any]:
    note = Path(repository.settings.folder) / _KNOWN
    where = repository.settings.repository
    known = note.is_file() and note.read_text(encoding="utf-8").strip() == where and not given.new
    made = repository.make(known=known)
    note.write_text(f"{where}\n", encoding="utf-8")
    return {"changed": made, "repository": where}


def _collect(repository: Repository, _given: argparse.Namespace) -> dict[str, Any]:
    """Write the dumps into the staging folder and list the paths for `restic backup`."""
    settings = repository.settings
    folder, stage = Path(settings.folder), stage_of(settings)
    _keep(settings, {**_read(folder / _LAST), "run": time.time(), "failed": 1})
    shutil.rmtree(stage, ignore_errors=True)
    repository.must("cat", "config")
    stage.mkdir(mode=0o700)
    collect(settings, stage)
    (folder / _PATHS).write_text("".join(f"{path}\n" for path in [stage, *present(settings)]), encoding="utf-8")
    return {}


def _note(repository: Repository, _given: argparse.Namespace) -> dict[str, Any]:
    """Record the result of the unit and remove the staging folder, because dumps are private and large."""
    settings = repository.settings
    folder, stage = Path(settings.folder), stage_of(settings)
    last, summary, manifest = _read(folder / _LAST), _summary(folder / _OUTPUT), _read(stage / MANIFEST)
    if os.environ.get("SERVICE_RESULT") == "success":
        last |= {
            "failed": 0,
            "success": last["run"],
            "seconds": time.time() - last["run"],
            "snapshot": str(summary.get("snapshot_id", ""))[:8],
            "bytes": summary.get("total_bytes_processed", 0),
            "added": summary.get("data_added", 0),
            "rows": sum(manifest.get("tables", {}).values()),
            "files": len(manifest.get("files", {})),
        }
    shutil.rmtree(stage, ignore_errors=True)
    for name in (_PATHS, _OUTPUT):
        (folder / name).unlink(missing_ok=True)
    _keep(settings, last)
    return {}


def _summary(path: Path) -> dict[str, Any]:
    """Return the summary message from restic's JSON output, or an empty dictionary if it has none."""
    for line in reversed(path.read_text(encoding="utf-8").splitlines() if path.is_file() else []):
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and found.get("message_type") == "summary":
                return found
    return {}


def present(settings: Settings) -> list[str]:
    """Return the files and folders of this host that restic saves directly.

    Raises:
        BackupError: a path that the site declares does not exist and would be missing from the snapshot.
    """
    missing = [path for path in settings.paths if not Path(path).exists()]
    if missing:
        message = f"backup_paths: {', '.join(missing)} does not exist. Correct the option, or restore the path."
        raise BackupError(message)
    return [*settings.paths, *(path for path in settings.configurations if Path(path).exists())]


def _list(repository: Repository, _given: argparse.Namespace) -> str:
    return "".join(f"{one}\n" for one in repository.snapshots())


def _verify(repository: Repository, given: argparse.Namespace) -> dict[str, Any]:
    chosen = repository.choose(given.snapshot)
    return {"snapshot": chosen.id[:8], **verify(repository, chosen, data=given.read_all)}


def _fetch(repository: Repository, given: argparse.Namespace) -> dict[str, Any]:
    settings = repository.settings
    chosen = repository.choose(given.snapshot)
    stage, manifest = fetch(repository, chosen, Path(settings.folder) / _FETCHED)
    former = _fetched(settings)
    note = {"snapshot": chosen.id, "stage": str(stage), "manifest": manifest, "begun": [], "placed": {}}
    # When an interrupted restore resumes, its partial data must not block it.
    if former.get("snapshot") == chosen.id:
        # Data that was lost again is restored again.
        placed = {part: aside for part, aside in former["placed"].items() if existing_data(settings, part)}
        note |= {"begun": former["begun"], "placed": placed}
    left = [part for part in parts_of(settings) if part not in note["placed"]]
    # The roles start Grafana and slapd before the restore, so these have already created an empty database.
    for part in ("grafana", "directory"):
        if part in left and part not in note["begun"] and not existing_data(settings, part):
            note["begun"] = [*note["begun"], part]
    there = [found for part in left if part not in note["begun"] and (found := existing_data(settings, part))]
    _write_fetched(settings, note)
    if not left:
        _clear(settings)
    shown = {key: manifest[key] for key in ("cluster", "host", "made_at", "slurm_version")}
    return {"changed": True, "snapshot": chosen.id[:8], "there": there, "left": left, **shown}


def _place(repository: Repository, given: argparse.Namespace) -> dict[str, Any]:
    settings = repository.settings
    if given.part not in parts_of(settings):
        message = f"{settings.host} does not save the part {given.part}"
        raise BackupError(message)
    note = _fetched(settings)
    if not note:
        message = f"{settings.host}: no snapshot was fetched. Run `busbar-backup fetch` first."
        raise BackupError(message)
    placed: dict[str, str] = note["placed"]
    if given.part in placed:
        return {"changed": False, "aside": placed[given.part]}
    replace = given.replace or given.part in note["begun"]
    if not replace:
        refuse_present(settings, given.part)
    _write_fetched(settings, {**note, "begun": [*note["begun"], given.part]})
    placed[given.part] = place(settings, Path(note["stage"]), given.part, note["manifest"])
    _write_fetched(settings, note)
    if set(placed) == set(parts_of(settings)):
        _clear(settings)
    return {"changed": True, "aside": placed[given.part]}


def _clear(settings: Settings) -> None:
    """Remove the fetched snapshot: it contains private data and takes space that the daemons need."""
    shutil.rmtree(Path(settings.folder) / _FETCHED, ignore_errors=True)


def _fetched(settings: Settings) -> dict[str, Any]:
    """Return the record of the last `fetch` and of the parts already restored, or an empty dictionary."""
    return _read(Path(settings.folder) / "restored.json")


def _write_fetched(settings: Settings, note: dict[str, Any]) -> None:
    """Write the record of the last `fetch` atomically."""
    path = Path(settings.folder) / "restored.json"
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(note), encoding="utf-8")
    fresh.replace(path)


_COMMANDS = {
    "init": _init,
    "collect": _collect,
    "note": _note,
    "list": _list,
    "verify": _verify,
    "fetch": _fetch,
    "place": _place,
}


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _keep(settings: Settings, last: dict[str, Any]) -> None:
    """Save the result of the last run, also as metrics for the node exporter."""
    (Path(settings.folder) / _LAST).write_text(json.dumps(last), encoding="utf-8")
    target = Path(settings.metrics) if settings.metrics else None
    if target is None or not target.parent.is_dir():
        return
    fresh = target.with_suffix(".tmp")
    fresh.write_text(metrics_text(last, settings.max_age_s), encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(target)


def metrics_text(last: dict[str, Any], max_age_s: int) -> str:
    """Return the metrics of the last run for the node exporter.

    Args:
        last: ``run`` and ``success``, in seconds since 1970, ``failed`` (0 or 1), ``seconds``, ``bytes`` and ``added``.
        max_age_s: maximum age of the newest snapshot, in seconds.
    """
    series = [
        ("last_run_timestamp_seconds", "Start of the last backup.", last.get("run", 0)),
        (
            "last_success_timestamp_seconds",
            "Start of the last successful backup; 0 for never.",
            last.get("success", 0),
        ),
        ("last_run_failed", "Whether the last backup failed.", last.get("failed", 0)),
        ("max_age_seconds", "Maximum age of the newest snapshot.", max_age_s),
        ("duration_seconds", "Duration of the last successful backup.", last.get("seconds", 0)),
        ("size_bytes", "Size of the newest snapshot.", last.get("bytes", 0)),
        ("added_bytes", "Bytes that the newest snapshot added to the repository.", last.get("added", 0)),
    ]
    return "".join(
        f"# HELP busbar_backup_{name} {text}\n# TYPE busbar_backup_{name} gauge\n"
        f"busbar_backup_{name} {float(value):.15g}\n"
        for name, text, value in series
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path("/etc/busbar/backup/backup.json")))
