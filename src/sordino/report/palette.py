"""Colours by what they mean, on a light and on a dark page.

Pictures are drawn in the light ones. `inline` then writes `var(--proved, #0072b2)` for each, so
that a page which sets `--proved` has its own, and one which does not still has a picture.
"""

from __future__ import annotations

# Okabe & Ito's blue, green and vermilion, which people tell apart who see fewer colours than
# others; no picture tells anything by colour alone.
LIGHT = {
    "ink": "#1d1f24",
    "muted": "#5a606b",
    "grid": "#d9dde3",
    "proved": "#0072b2",
    "estimated": "#00805e",
    "observed": "#b84f00",
    "panel": "#ffffff",
    "warn": "#b3002d",
}
DARK = {
    "ink": "#e9ebee",
    "muted": "#a3abb8",
    "grid": "#3a404a",
    "proved": "#56b4e9",
    "estimated": "#3fcb9d",
    "observed": "#ff9a52",
    "panel": "#15181d",
    "warn": "#ff7a8a",
}
INK, MUTED, GRID, PANEL, WARN = (LIGHT[name] for name in ("ink", "muted", "grid", "panel", "warn"))
PROVED, ESTIMATED, OBSERVED = (LIGHT[name] for name in ("proved", "estimated", "observed"))
PURPLE = "#aa4499"
"""For a fourth line of figures made for print."""
LINES = (PROVED, OBSERVED, ESTIMATED, PURPLE, INK, "#e69f00", "#56b4e9", MUTED)
"""For lines in the order of nothing but their number."""


def css(selector: str = ":root") -> str:
    """The colours as CSS custom properties, dark ones for those who asked for dark pages."""
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in colours.items())
        for colours in (LIGHT, DARK)
    )
    return (
        f"{selector} {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ {selector} {{ {dark} }} }}"
    )
