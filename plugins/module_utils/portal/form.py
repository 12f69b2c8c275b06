"""Format the portal's form, and convert its submitted fields."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from .notebook_job import Choice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .cluster_resources import Partition

__all__ = ["choices_from_form", "page"]

FORM_KEYS = Choice._fields
_HOUR = 60


def _options(values: Sequence[tuple[str, str]]) -> str:
    return "".join(f'<option value="{html.escape(value)}">{html.escape(text)}</option>' for value, text in values)


def _select(name: str, label: str, values: Sequence[tuple[str, str]]) -> str:
    return (
        f'<div class="mb-3"><label class="form-label" for="{name}">{label}</label>'
        f'<select class="form-select" id="{name}" name="{name}">{_options(values)}</select></div>'
    )


def _number(name: str, label: str, value: float, span: tuple[float, float], step: str = "1") -> str:
    return (
        f'<div class="mb-3"><label class="form-label" for="{name}">{label}</label>'
        f'<input class="form-control" type="number" id="{name}" name="{name}" value="{value:g}" min="{span[0]:g}" '
        f'max="{span[1]:g}" step="{step}" required></div>'
    )


def _free(partition: Partition) -> str:
    gpus = [
        f"{partition.free_gpus.get(kind, 0)} of {count} GPUs{f' {kind}' if kind else ''} free"
        for kind, count in sorted(partition.gpus.items())
    ]
    return ", ".join([*gpus, f"{partition.free_cpus} of {partition.cpus} CPUs free"])


def page(  # noqa: PLR0913 - one argument per part of the page
    partitions: Sequence[Partition],
    accounts: Sequence[str],
    environments: Mapping[str, str],
    proposed: Mapping[str, int],
    *,
    most_minutes: int,
    ended: str,
) -> str:
    """Return the form in HTML.

    Args:
        partitions: partitions that the user may use, the default one first.
        accounts: accounts that the user may charge, the default one first.
        environments: titles by name.
        proposed: initial `minutes`, `cpus` and `memory_gib`; memory 0 leaves the choice to Slurm.
        most_minutes: maximum time.
        ended: why the last notebook ended; empty if the user had no notebook.
    """
    if not partitions:
        return '<p class="alert alert-danger">You have access to no partition: contact the administrators.</p>'
    kinds = sorted({kind for partition in partitions for kind in partition.gpus if kind})
    most = max(partition.most_gpus for partition in partitions)
    hours = most_minutes / _HOUR
    parts = [
        f'<p class="alert alert-info">Your last notebook ended: {html.escape(ended)}.</p>' if ended else "",
        _select("partition", "Partition", [(one.name, f"{one.name}: {_free(one)}") for one in partitions]),
        _select("account", "Account", [(name, name) for name in accounts]) if accounts else "",
        _number("gpus", "GPUs", min(1, most), (0, most)),
        _select("gpu_type", "Type of GPU", [("", "any"), *((kind, kind) for kind in kinds)]) if kinds else "",
        _number("cpus", "CPUs", proposed["cpus"], (1, max(1, *(one.cpus for one in partitions)))),
        _number("memory_gib", "Memory in GiB (0: the partition's default)", proposed["memory_gib"], (0, 65536)),
        _number("hours", "Hours", min(proposed["minutes"] / _HOUR, hours), (0.25, hours), "0.25"),
        _select("environment", "Environment", list(environments.items())),
    ]
    return "".join(parts)


def choices_from_form(form: Mapping[str, Sequence[str]], most_minutes: int) -> dict[str, str]:
    """Return the request fields for the submitted form, which has hours instead of minutes.

    Raises:
        ValueError: the time is not a number, or exceeds the maximum.
    """
    chosen = {key: str(form.get(key, [""])[0]) for key in FORM_KEYS if key != "minutes"}
    text = str(form.get("hours", [""])[0])
    try:
        minutes = round(float(text) * _HOUR)
    except (ValueError, OverflowError):
        minutes = 0
    if not 1 <= minutes <= most_minutes:
        message = f"hours: {text!r} must be a time of at most {most_minutes / _HOUR:g} hours"
        raise ValueError(message)
    return chosen | {"minutes": str(minutes)}
