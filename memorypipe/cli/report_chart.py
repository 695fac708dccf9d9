"""A line over time as SVG, that needs no script. Pure."""

from collections.abc import Sequence

from memorypipe.cli.report_html import Markup, element, join

__all__ = ["line_chart"]

_WIDTH, _HEIGHT = 760, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 10, 26
_TICKS = 4
_MINUTE_S, _HOUR_S = 60, 3600


def line_chart(points: Sequence[tuple[float, float]], *, label: str) -> Markup:
    """Draw values over seconds, each holding until the next.

    Args:
        points: Seconds and values, in order of time; at least one.
        label: What is drawn, for those who do not see it.
    """
    start, end = points[0][0], max(points[-1][0], points[0][0] + 1e-3)
    top = max(1.0, *(value for _, value in points))

    def x(at_s: float) -> float:
        return _LEFT + (at_s - start) / (end - start) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _height(value, top)

    steps = [f"M{x(start):.1f} {y(points[0][1]):.1f}"]
    steps += [f"H{x(at_s):.1f}V{y(value):.1f}" for at_s, value in points[1:]]
    line = "".join(steps)
    area = f"{line}V{y(0):.1f}H{x(start):.1f}Z"
    return element(
        "svg",
        element("title", label),
        _grid(top),
        element("path", d=area, class_="area"),
        element("path", d=line, class_="line"),
        _times(end - start),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=label,
    )


def _height(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)


def _grid(top: float) -> Markup:
    heights = sorted({round(top * n / _TICKS) for n in range(_TICKS + 1)})
    lines = []
    for value in heights:
        at = _height(value, top)
        lines += [
            element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=f"{at:.1f}", y2=f"{at:.1f}"),
            element("text", f"{value:,}", x=_LEFT - 6, y=f"{at + 4:.1f}", text_anchor="end"),
        ]
    return join(lines)


def _times(length_s: float) -> Markup:
    width = _WIDTH - _LEFT - _RIGHT
    return join(
        element(
            "text",
            _duration(length_s * n / _TICKS),
            x=f"{_LEFT + width * n / _TICKS:.1f}",
            y=_HEIGHT - 8,
            text_anchor="start" if n == 0 else "end" if n == _TICKS else "middle",
        )
        for n in range(_TICKS + 1)
    )


def _duration(seconds: float) -> str:
    """Show a time since the start.

    Example:
        >>> _duration(0), _duration(7.25), _duration(90), _duration(5400)
        ('0 s', '7.2 s', '1.5 min', '1.5 h')
    """
    if seconds < _MINUTE_S:
        return f"{seconds:.3g} s" if seconds < 1 else f"{seconds:.1f} s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.1f} min"
    return f"{seconds / _HOUR_S:.1f} h"
