"""Read installed packages without the package manager's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible.module_utils.basic import AnsibleModule


def installed_versions(module: AnsibleModule, names: Sequence[str]) -> dict[str, str]:
    """Return the versions of the installed packages among `names`."""
    if not names:
        return {}
    if module.get_bin_path("dpkg-query"):
        _, out, _ = module.run_command(
            ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status} ${Version}\\n", *names]
        )
        found = [line.split() for line in out.splitlines()]
        return {words[0]: words[2] for words in found if len(words) == 3 and words[1] == "installed"}  # noqa: PLR2004
    _, out, _ = module.run_command(["rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n", *names])
    return dict(line.split() for line in out.splitlines() if len(line.split()) == 2)  # noqa: PLR2004
