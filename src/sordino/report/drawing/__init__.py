"""The pictures of the page as inline SVG, with colours that follow the page's own."""

from __future__ import annotations

from sordino.report.blocks import Drawn
from sordino.report.drawing.accuracy import accuracy
from sordino.report.drawing.axis import axis, estimates
from sordino.report.drawing.distances import distances
from sordino.report.drawing.inline import standalone
from sordino.report.drawing.roc import roc, tradeoff
from sordino.report.palette import css

__all__ = [
    "Drawn",
    "accuracy",
    "axis",
    "css",
    "distances",
    "estimates",
    "roc",
    "standalone",
    "tradeoff",
]
