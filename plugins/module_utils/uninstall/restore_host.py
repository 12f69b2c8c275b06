"""Restore a host to its state before busbar, and report what remains and why."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ..common.baseline import BASELINE, listed_paths, units
from .host_state import BUSBAR, KEPT, RefusedError, is_below
from .paths import top_paths
from .remove_packages import AWAY
from .services import ServicesOfHost

__all__ = ["Host", "RefusedError"]

# Downloaded package files.
CACHE = Path("/var/cache/busbar")
# Written by package managers and the system.
_OF_THE_SYSTEM = (
    *("/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log/apt", "/var/log/journal", "/var/log/dpkg.log"),
    *("/var/lib/rpm", "/var/lib/dnf", "/var/lib/systemd", "/var/lib/pam", "/var/lib/ucf"),
    "/etc/ld.so.cache",
    *(str(Path("~root").expanduser() / name) for name in (".ansible", ".cache")),
)


class Host(ServicesOfHost):
    """A host, restored in a safe order."""

    def run(self) -> None:
        """Restore the host, or list the changes in check mode.

        Raises:
            RefusedError: the host cannot be restored completely; nothing was changed.
        """
        dry = self.module.check_mode
        if not dry:
            self.release_guarded()
            for path in self.given["data"]:
                self.move_data_back(path)
        self.data = [path for path in self.given["data"] if os.path.lexists(path)]
        self.plan_packages()
        former = units(self.module)
        self.unmount()
        # Data on file servers, such as homes, is no longer mounted.
        self.data = [path for path in self.data if os.path.lexists(path)]
        if not dry:
            self.stop_units()
            self.stop_packaged()
        self.removed += [f"package {name}" for name in self.going]
        self.restored += [f"package {name}" for name in self.back]
        held = self.holds()
        self.files()
        self.change_packages()
        self.restored += [f"package {name}: no longer held" for name in held]
        if held and not dry:
            self.output("apt-mark", "unhold", *held)
        if not dry:
            self.empty_directories()
            self.restore_units(former)
        self.reload()
        self.accounts()
        self.kept += [f"data {path}: never removed" for path in self.data]
        if not dry:
            self.finish()

    def finish(self) -> None:
        """List unknown new paths; remove the baseline after success."""
        known = (*_OF_THE_SYSTEM, *self.data, *self.homes, str(BUSBAR))
        unknown = [path for path in listed_paths(self.module) if path not in self.before and not is_below(path, known)]
        self.kept += [f"{path}: created later by programs or users" for path in top_paths(unknown)]
        if self.problems:
            return
        for each in sorted(BUSBAR.iterdir()):
            if each in {KEPT, BASELINE, *map(Path, self.data)} or (
                each == AWAY and any(not path.is_dir() for path in each.rglob("*"))
            ):
                continue
            histories = [each] if each.suffix == ".jsonl" else sorted(each.rglob("*.jsonl"))
            for history in histories:
                self.save_copy(history, str(history), "a history")
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)
        shutil.rmtree(CACHE, ignore_errors=True)
        # Rename first, so that a partially removed baseline is never used.
        shutil.rmtree(BASELINE.rename(BASELINE.with_name("baseline.new")))
        with contextlib.suppress(OSError):
            BUSBAR.rmdir()
