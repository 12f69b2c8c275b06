"""A chart of lines as SVG: both axes logarithmic, no script, no font but the reader's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from devel.measured import Chart

__all__ = ["line_chart"]

_COLOURS = ("#0b6e4f", "#c1440e", "#3454d1", "#7a5195")
_WIDTH, _HEIGHT = 640, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 40, 50


def line_chart(chart: Chart, lines: dict[str, dict[int, float]], unit: str) -> str:
    """The text of the picture; a value of nothing is left out, since a logarithmic axis has no place for it."""
    shown = {name: {at: value for at, value in points.items() if value > 0} for name, points in lines.items()}
    sizes = sorted({at for points in shown.values() for at in points})
    values = [value for points in shown.values() for value in points.values()]
    decades = (math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))))
    low, high = decades[0], max(decades[1], decades[0] + 1)
    first, last = math.log(sizes[0]), math.log(max(sizes[-1], sizes[0] + 1))

    def across(size: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (math.log(size) - first) / (last - first)

    def up(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (math.log10(value) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(chart.title)}</title>",
        "<style>text { font: 12px sans-serif }</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-weight="bold">{escape(chart.title)}</text>',
    ]
    for power in range(low, high + 1):
        at = up(10.0**power)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} {escape(unit)}</text>')
    below = _HEIGHT - _BOTTOM + 18
    parts += [f'<text x="{across(size):.1f}" y="{below}" text-anchor="middle">{size}</text>' for size in sizes]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle:.1f}" y="{_HEIGHT - 10}" text-anchor="middle">{escape(chart.size)}</text>')
    for place, (name, points) in enumerate(shown.items()):
        colour = _COLOURS[place % len(_COLOURS)]
        path = " ".join(f"{across(at):.1f},{up(points[at]):.1f}" for at in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{across(at):.1f}" cy="{up(points[at]):.1f}" r="3" fill="{colour}"/>' for at in sorted(points)
        ]
        height = _TOP + 10 + 18 * place
        parts.append(f'<text x="{_WIDTH - _RIGHT + 10}" y="{height}" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])
