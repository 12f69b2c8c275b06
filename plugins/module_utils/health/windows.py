"""Counters over time: how fast they grow, and by how much within a window. Pure.

A sample is a pair of time (seconds since 1970) and value. A counter that became smaller was set back, by a reset or a
reboot: what it had before does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Samples = Sequence[Sequence[float]]

__all__ = ["growth", "kept", "rate"]

# A node that is looked at each second would otherwise keep a file of megabytes.
_MOST = 400


def _since_reset(samples: Samples) -> list[Sequence[float]]:
    """Return the samples after the counter was last set back, the oldest first."""
    begin = max((place for place in range(1, len(samples)) if samples[place][1] < samples[place - 1][1]), default=0)
    return list(samples[begin:])


def rate(samples: Samples, now: float, value: float, unit_s: float) -> float:
    """Return how much a counter grew per unit of time, measured over at least one unit.

    Args:
        samples: earlier samples, the oldest first.
        now: time of the present value.
        value: the present value.
        unit_s: the unit, in seconds; runs that are closer together than it are taken together.
    """
    known = _since_reset([*samples, (now, value)])
    old = [each for each in known[:-1] if each[0] <= now - unit_s]
    first = old[-1] if old else known[0]
    return (value - first[1]) / max((now - first[0]) / unit_s, 1.0)


def growth(samples: Samples, now: float, value: float, window_s: float) -> float:
    """Return by how much a counter grew within a window; what it had at the first look at all does not count."""
    known = [*samples, (now, value)]
    inside = [place for place, each in enumerate(known) if each[0] >= now - window_s]
    steps = (known[place][1] - known[place - 1][1] for place in inside if place > 0)
    return sum(step for step in steps if step > 0)


def kept(
    samples: Mapping[str, Samples], new: Mapping[str, float], now: float, window_s: float
) -> dict[str, list[list[float]]]:
    """Return the samples with new ones, without those that no window needs any more.

    The last one before the window is kept: growth is counted from it.
    """
    result = {}
    for name in {*samples, *new}:
        old = [list(map(float, each)) for each in samples.get(name, ())]
        after = next((place for place, each in enumerate(old) if each[0] >= now - window_s), len(old))
        rest = old[max(after - 1, 0) :]
        if name in new:
            rest.append([now, float(new[name])])
        elif rest and rest[-1][0] < now - window_s:
            continue
        if len(rest) > _MOST:
            rest = [rest[0], *rest[-_MOST:]]
        if rest:
            result[name] = rest
    return result
