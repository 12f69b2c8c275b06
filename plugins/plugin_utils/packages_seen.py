"""Which packages this run of Ansible has found installed on a host, so that no role asks the same host again.

The first role asks for the packages of those that follow as well, and each look is a round trip. What was found is a
fact of the host with the number of the run: facts may be kept on disk, and another run must look by itself.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FACT", "RUN", "all_seen", "begin_run", "seen_now"]

FACT = "busbar_packages_seen"
# In the environment, which the processes of all tasks inherit.
RUN = "BUSBAR_ANSIBLE_RUN"
# Arguments that ask for no more than that packages are there.
_PLAIN = frozenset({"name", "start_services", "recommends"})


def begin_run() -> None:
    """Give the run that begins in this process its number."""
    os.environ[RUN] = uuid.uuid4().hex


def all_seen(arguments: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Return whether all packages that a task asks for have been found in this run.

    Args:
        arguments: of the module `packages`.
        facts: what is known of the host.
    """
    names = _names(arguments)
    return bool(names) and set(arguments) <= _PLAIN and set(names) <= _seen(facts)


def seen_now(module: str, arguments: Mapping[str, Any], result: Mapping[str, Any], facts: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a fact
    """Return the fact after a module of packages has ended, None where it stays.

    Args:
        module: its name.
        arguments: what it was asked.
        result: what it answered.
        facts: what was known of the host.
    """
    run = os.environ.get(RUN)
    if not run:
        return None
    plain = module.rpartition(".")[2] == "packages" and set(arguments) <= _PLAIN
    changed, failed = bool(result.get("changed")), bool(result.get("failed"))
    # What removes or moves packages may have taken one of those that were seen; a plain installation does not.
    known = _seen(facts) if plain or not (changed or failed) else set()
    # In check mode a change has not been made.
    if plain and not failed and not (changed and result.get("dry")):
        known = known | set(_names(arguments))
    return {"run": run, "names": sorted(known)} if known != _seen(facts) else None


def _seen(facts: Mapping[str, Any]) -> set[str]:
    kept = facts.get(FACT)
    run = os.environ.get(RUN)
    if not run or not isinstance(kept, dict) or kept.get("run") != run:
        return set()
    return {str(name) for name in kept.get("names") or []}


def _names(arguments: Mapping[str, Any]) -> list[str]:
    given = arguments.get("name") or []
    return [given] if isinstance(given, str) else [str(name) for name in given]
