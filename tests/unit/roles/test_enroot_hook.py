"""Tests of the Enroot hook that creates mount points, called as by Enroot 4.1.2, and of a later export."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

HOOK = Path(__file__).resolve().parents[3] / "roles/enroot/files/etc/enroot/hooks.d/49-busbar-mount-points.sh"
PMIX = "/var/lib/slurm/slurmd/pmix.41.0"
# Config that Pyxis 0.24 writes for --container-mounts=SHARED:/data,FILE:/etc/f (enroot_create_start_config).
CONFIG = """mounts() {{
\techo "{shared} /data x-create=auto,rbind"
\techo "{shared}/a\\040b /with\\040space x-create=auto,rbind,ro"
\techo "{shared}/file /etc/f x-create=auto,rbind"
\techo "$(touch {shared}/evil) /evil x-create=dir"
}}
hooks() {{
\techo 'exec "$@"' > ${{ENROOT_ROOTFS}}/etc/rc.local
}}
"""


class Container:
    """A container with its root file system in a folder."""

    def __init__(self, folder: Path) -> None:
        """Create the root file system and the sources of its mounts."""
        self.root, self.shared, self.config = folder / "root", folder / "shared", folder / ".enroot_config_x"
        (self.root / "etc").mkdir(parents=True)
        (self.shared / "a b").mkdir(parents=True)
        (self.shared / "file").touch()
        self.config.write_text(CONFIG.format(shared=self.shared), encoding="utf-8")

    def start(self, mounts: str = "", **environment: str) -> None:
        """Run the hook as part of the process that starts the container."""
        words = ['runtime::_start "$@"', str(self.config), str(self.root), "", str(self.config), mounts, "", "sh"]
        # Enroot gets the function from BASH_ENV.
        function = self.root.with_name("functions")
        function.write_text(f"runtime::_start() {{ ( {HOOK}; : ); }}\n", encoding="utf-8")
        given = {"PATH": os.environ["PATH"], "BASH_ENV": str(function), "ENROOT_ROOTFS": str(self.root), **environment}
        subprocess.run(["bash", "--norc", "-c", *words], check=True, env=given, timeout=30)

    def mount_point(self, path: str) -> int:
        """Create a mount point as enroot-mount does (common.h, create_file); return its mode."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(mode=0, exist_ok=True)
        return place.stat().st_mode & 0o777


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


@pytest.mark.parametrize(
    ("path", "environment", "mounts"),
    [
        (PMIX, {"PMIX_SERVER_TMPDIR": PMIX}, ""),
        ("/data", {}, ""),
        ("/with space", {}, ""),
        ("/srv", {}, "{shared}:/srv:x-create=dir,bind\n/nowhere"),
        ("{shared}", {}, "{shared}"),
    ],
)
def test_mount_points_can_be_exported(
    container: Container, path: str, environment: Mapping[str, str], mounts: str
) -> None:
    path = path.format(shared=container.shared)
    assert Container(container.root / "other").mount_point(path) == 0, "without the hook find may not look into it"
    container.start(mounts.format(shared=container.shared), **environment)
    assert container.mount_point(path) == 0o755


def test_mounts_of_files_and_shell_expansions_are_left_to_enroot(container: Container) -> None:
    container.start("/nowhere:/gone")
    assert not (container.root / "etc/f").exists()
    assert not (container.root / "gone").exists()
    assert not (container.root / "evil").exists()
    assert not (container.shared / "evil").exists()


def test_links_of_an_image_are_not_followed_out_of_it(container: Container, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (container.root / "var").symlink_to(outside)
    (container.root / "data").symlink_to(outside / "made")
    container.start(PMIX_SERVER_TMPDIR=PMIX)
    assert not list(outside.iterdir())


def test_start_updates_the_time_of_the_container(container: Container) -> None:
    os.utime(container.root, (0, 0))
    container.start()
    assert container.root.stat().st_mtime > 10**9


def test_hook_does_nothing_without_a_container() -> None:
    subprocess.run(["bash", str(HOOK)], check=True, env={"PATH": os.environ["PATH"]}, timeout=30)


def test_mount_points_of_the_site_can_be_exported(container: Container) -> None:
    """These are the mounts that the role enroot adds to all containers, without comment lines."""
    folder = container.shared / "enroot" / "mounts.d"
    folder.mkdir(parents=True)
    file = "/etc/hosts /usr/local/x none x-create=file,bind"
    lines = f"# Ansible managed\n#\n{file}\n{container.shared} /scratch none x-create=auto,rbind\n"
    (folder / "80-busbar.fstab").write_text(lines, encoding="utf-8")
    container.start(ENROOT_SYSCONF_PATH=str(folder.parent))
    assert container.mount_point("/scratch") == 0o755
