"""Brings a host back to what it was before busbar: what goes, what comes back, what stays and why."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ..common.host_baseline import DEPTHS, paths_below, units
from .base import BUSBAR, KEPT, RefusedError
from .host_packages import AWAY, PackagesOfHost
from .host_paths import PathsOfHost
from .host_services import ServicesOfHost
from .paths import is_below, top_paths

__all__ = ["Host", "RefusedError"]

# Package files that were fetched for an installation.
CACHE = Path("/var/cache/busbar")
# What package managers and the system write for themselves.
_OF_THE_SYSTEM = (
    *("/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/cache/debconf", "/var/cache/ldconfig", "/var/log/apt"),
    *("/var/lib/rpm", "/var/lib/dnf", "/var/cache/dnf", "/var/lib/systemd", "/var/log/journal", "/var/log/dpkg.log"),
    *("/var/lib/pam", "/var/lib/ucf", "/etc/ld.so.cache", "/root/.ansible", "/root/.cache"),
)


class Host(PackagesOfHost, PathsOfHost, ServicesOfHost):
    """One host that is brought back, in the order in which that is safe."""

    def run(self) -> None:
        """Bring the host back, or in check mode tell what that means.

        Raises:
            RefusedError: that cannot be done as a whole; nothing was changed.
        """
        if not self.module.check_mode:
            self.release_guarded()
            for path in self.given["data"]:
                self.bring_back(path)
        self.data = [path for path in self.given["data"] if os.path.lexists(path)]
        self.plan_packages()
        former = units(self.module)
        if not self.module.check_mode:
            self.note_owners()
            self.record.save()
        self.unmount()
        # What lay on a file server, such as the homes, is there no more.
        self.data = [path for path in self.data if os.path.lexists(path)]
        self.stop_units()
        steps = {name: self.step(name, entry) for name, entry in self.record.changes["paths"].items()}
        self.removed += [f"package {name}" for name in self.going]
        self.restored += [f"package {name}" for name in self.back]
        self.keep_changed(steps)
        held = self.holds()
        self.change_packages()
        if held:
            self.restored += [f"package {name}: no longer held" for name in held]
            if not self.module.check_mode:
                self.output("apt-mark", "unhold", *held)
        self.files(steps)
        self.bring_units_back(former)
        self.reload()
        self.accounts()
        self.kept += [f"data {path}: never removed" for path in self.data if os.path.lexists(path)]
        self.finish()

    def finish(self) -> None:
        """Tell what nobody accounts for, and let the record go when all is done."""
        now = [path for top, depth in DEPTHS.items() for path in paths_below(top, depth)]
        known = (*_OF_THE_SYSTEM, *self.data, *self.homes, str(BUSBAR))
        unknown = [path for path in now if path not in self.before and not is_below(path, known)]
        if self.module.check_mode:
            return
        self.kept += [f"{path}: made since by programs or people" for path in top_paths(unknown)]
        if self.problems:
            return
        for each in sorted(BUSBAR.iterdir()):
            if each in {KEPT, self.record.folder, *map(Path, self.data)} or (
                each == AWAY and any(not path.is_dir() for path in each.rglob("*"))
            ):
                continue
            histories = [each] if each.suffix == ".jsonl" else sorted(each.rglob("*.jsonl"))
            for history in histories:
                self.keep_aside(history, str(history), "a history")
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink(missing_ok=True)
        shutil.rmtree(CACHE, ignore_errors=True)
        shutil.rmtree(self.record.folder)
        with contextlib.suppress(OSError):
            BUSBAR.rmdir()
