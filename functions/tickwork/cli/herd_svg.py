"""A herd forecast as a picture: SVG from a small template, which every browser shows and turns into PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tickwork.core.instants import DAY_MS, iso
from tickwork.core.jobs.herd import Forecast, Peak
from tickwork.core.jobs.herd_dates import Mark

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 1_200, 420, 60, 40, 50
POINTS_MAX = 1_100
"""About one for each dot: of the minutes that share one the highest is drawn."""
_BEFORE, _AFTER = "#b8bec7", "#1f6feb"


def svg(found: Forecast, highest: Sequence[Peak], dates: Sequence[Mark]) -> str:
    """The highest minutes by nominal times in grey, by fire times in blue; days, peaks and dates beside."""
    top = max((*found.before, *found.after, 1))
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            'font-size="12">'
        ),
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        (
            f'<text x="{LEFT}" y="20">due in a minute, before (grey) and after jitter (blue); from '
            f"{iso(found.begin_ms)}</text>"
        ),
        *_grid(found, top),
        *(_area(counts, top, colour) for counts, colour in ((found.before, _BEFORE), (found.after, _AFTER))),
        *_texts(found, highest, dates, top),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(found: Forecast, at_ms: int) -> float:
    length_ms = found.minute_ms(len(found.after)) - found.begin_ms
    return LEFT + (WIDTH - LEFT - 20) * (at_ms - found.begin_ms) / length_ms


def _y(count: int, top: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * count / top


def _grid(found: Forecast, top: int) -> Iterator[str]:
    for count in sorted({0, top // 2, top}):
        y = _y(count, top)
        yield f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{count}</text>'
    end_ms = found.minute_ms(len(found.after))
    step_ms = DAY_MS * max(1, (end_ms - found.begin_ms) // DAY_MS // 14)
    for at_ms in range(-(-found.begin_ms // DAY_MS) * DAY_MS, end_ms, step_ms):
        x = _x(found, at_ms)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#e5e7eb"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{iso(at_ms)[5:10]}</text>'


def _area(counts: list[int], top: int, colour: str) -> str:
    size = -(-len(counts) // POINTS_MAX)
    heights = [max(counts[low : low + size]) for low in range(0, len(counts), size)]
    width = (WIDTH - LEFT - 20) / len(heights)
    points = " ".join(f"L{LEFT + index * width:.1f},{_y(high, top):.1f}" for index, high in enumerate(heights))
    base = _y(0, top)
    return f'<path d="M{LEFT},{base:.1f} {points} L{WIDTH - 20},{base:.1f} Z" fill="{colour}" fill-opacity="0.7"/>'


def _texts(found: Forecast, highest: Sequence[Peak], dates: Sequence[Mark], top: int) -> Iterator[str]:
    for peak in highest[:3]:
        who = ", ".join(f"{team} {count}" for team, count in peak.teams[:2])
        x, y = _x(found, peak.at_ms), _y(peak.after, top)
        anchor = "end" if x > WIDTH / 2 else "start"
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#d1242f"/>'
        label = escape(f"{iso(peak.at_ms)[5:16]} {peak.after} ({who})")
        yield f'<text x="{x:.1f}" y="{y - 6:.1f}" text-anchor="{anchor}" fill="#d1242f">{label}</text>'
    for mark in dates[:6]:
        x = _x(found, mark.at_ms)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#9a6700"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle" fill="#9a6700">{escape(mark.what)}</text>'
