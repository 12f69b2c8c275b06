"""Options and functions that select a validation report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.busbar.cluster.plugins.plugin_utils.report_files import (
    PROVE_PREFIX,
    folders,
    is_report,
    read_report,
)
from ansible_collections.busbar.cluster.plugins.plugin_utils.site_folder import site_folder

from busbar.errors import UsageError
from busbar.paths import default_inventory
from busbar.sandbox.option import add_sandbox, chosen
from busbar.sandbox.state import inventory_of

if TYPE_CHECKING:
    import argparse

    from ansible_collections.busbar.cluster.plugins.plugin_utils.engine.report.report_types import ReadReport

LATEST = "latest"


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the location of reports."""
    parser.add_argument("-i", "--inventory", metavar="INVENTORY", help="inventory of the cluster (default: inventory/)")
    add_sandbox(parser)
    parser.add_argument("--reports", type=Path, metavar="DIR", help="folder with the reports")


def reports_folder(args: argparse.Namespace) -> Path:
    """Return the folder of reports: the given one, the one next to the inventory, or the current folder.

    Raises:
        UsageError: the options contradict each other, or the folder does not exist.
    """
    if bool(args.inventory) + chosen(args) + bool(args.reports) > 1:
        message = "choose the reports with -i, with --sandbox or --name, or with --reports, not a combination"
        raise UsageError(message)
    if args.reports:
        if not args.reports.is_dir():
            message = f"--reports {args.reports}: folder not found"
            raise UsageError(message)
        return Path(args.reports)
    if not args.inventory and not chosen(args) and not default_inventory().exists():
        # `busbar prove` has no site and writes reports into the current folder.
        return Path.cwd()
    place = site_of(args) / "reports"
    if not place.is_dir():
        message = f"no reports yet ({place} does not exist): run busbar validate, or set the folder with --reports"
        raise UsageError(message)
    return place


def site_of(args: argparse.Namespace) -> Path:
    """Return the site folder of the given inventory.

    Raises:
        UsageError: the inventory does not exist.
    """
    inventory = inventory_of(args.name) if chosen(args) else Path(args.inventory or default_inventory())
    if not inventory.exists():
        message = f"inventory {inventory} not found: use -i or --sandbox"
        raise UsageError(message)
    return site_folder(inventory)


def all_reports(place: Path) -> list[Path]:
    """Return the folders of all reports, oldest first.

    Raises:
        UsageError: the place cannot be read.
    """
    try:
        return folders(place)
    except OSError as exc:
        message = f"cannot read {place}: {exc.strerror or exc}"
        raise UsageError(message) from exc


def find_report(args: argparse.Namespace, name: str) -> Path:
    """Return the folder of the requested report.

    Raises:
        UsageError: no report or several reports match.
    """
    given = Path(name)
    folder = given.parent if given.name == "report.json" else given
    here = folder.resolve() if is_report(folder) else None
    # A name is first one of the chosen site, even if the current folder contains the same name.
    is_name = name == given.name and bool(args.inventory or chosen(args) or args.reports)
    if here is not None and not is_name:
        return here
    place = reports_folder(args)
    known = all_reports(place)
    if not known and here is None:
        message = f"no report in {place}: use the report's folder, -i INVENTORY, or --reports FOLDER"
        raise UsageError(message)
    if name == LATEST and known:
        return known[-1]
    wanted = name.removeprefix(PROVE_PREFIX).replace("-", "").replace(":", "")
    found = [path for path in known if path.name == name] or [
        path for path in known if path.name.removeprefix(PROVE_PREFIX).startswith(wanted)
    ]
    if len(found) == 1 and wanted:
        return found[0]
    if here is not None and name != LATEST:
        return here
    names = ", ".join(path.name for path in (found or known)[-5:])
    message = f"{len(found)} reports match {name!r} in {place} ({'matching' if found else 'last'}: {names})"
    raise UsageError(message)


def readable_report(folder: Path) -> ReadReport:
    """Read a report.

    Raises:
        UsageError: the report cannot be read.
    """
    try:
        return read_report(folder)
    except OSError as exc:
        message = f"cannot read {folder / 'report.json'}: {exc.strerror or exc}"
        raise UsageError(message) from exc
    except ValueError as exc:
        raise UsageError(str(exc)) from exc
