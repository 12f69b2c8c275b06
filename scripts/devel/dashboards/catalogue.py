"""All dashboards, and the files that they are written to."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import gpu, health, job, monitoring, network, node, overview, storage, validation
from .board import text

__all__ = ["FOLDER", "dashboards", "main", "write"]

FOLDER = Path(__file__).resolve().parents[3] / "roles" / "grafana" / "files" / "dashboards"
MAKERS = (overview, node, health, gpu, job, network, storage, validation, monitoring)


def dashboards() -> dict[str, str]:
    """Return the text of every dashboard by the name of its file."""
    made = [maker.make() for maker in MAKERS]
    return {f"{str(item.uid).removeprefix('busbar-')}.json": text(item) for item in made}


def write(folder: Path) -> list[str]:
    """Make the folder hold the dashboards and no other JSON; return the names of files that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = dashboards()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    for name in present.keys() - wanted.keys():
        (folder / name).unlink()
    changed = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    for name in changed:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8")
    return changed


def main() -> None:
    """Write the dashboards where the role `grafana` has them, or into a folder that is named."""
    parser = argparse.ArgumentParser(prog="scripts/dashboards", description="Write Grafana's dashboards as JSON.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="by default the role's own")
    folder = parser.parse_args().folder
    changed = write(folder)
    for name in changed:
        print(f"written: {folder / name}")
    if not changed:
        print(f"nothing to change in {folder}")


if __name__ == "__main__":
    main()
