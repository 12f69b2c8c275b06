"""Writes metrics of the installed packages with known vulnerabilities. Usage: package_watch FILE.

The table, package_watch.json beside the program, is the content of package_fixes.yml.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ansible_collections.busbar.cluster.plugins.module_utils.common.node_info import parse_os_release
from ansible_collections.busbar.cluster.plugins.module_utils.common.package_fixes import unfixed_packages
from ansible_collections.busbar.cluster.plugins.module_utils.common.software_versions import versions

NAME = "busbar_package_vulnerable"


def main(target: Path, table: Path) -> int:
    """Write the metrics to a file atomically."""
    system = parse_os_release(Path("/etc/os-release").read_text(encoding="utf-8"))
    found = unfixed_packages(json.loads(table.read_text(encoding="utf-8")), system, versions())
    lines = [
        f"# HELP {NAME} 1 if the package has published vulnerabilities that a newer revision or release fixes.",
        f"# TYPE {NAME} gauge",
        *(f'{NAME}{{package="{each.name}",version="{each.version}"}} 1' for each in found if each.is_known),
    ]
    new = target.with_suffix(".tmp")
    new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    new.chmod(0o644)
    new.replace(target)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[0]).resolve().with_suffix(".json")))
