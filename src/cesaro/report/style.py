"""How pictures look: colors with a part to play, figures without global state, PNG files, SVG that follows a page's theme."""

import re
import textwrap
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from cesaro.text import visible

# Each color occurs in one part only, so that a page can put its own in its place.
INK, MUTED, GRID = "#1b2733", "#54616e", "#d3dae1"
TARGET, LOG, DIFFERENCE, LOSS = "#1f5fa8", "#6a5d4d", "#23724a", "#b3361f"
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    TARGET: "--target",
    LOG: "--log",
    DIFFERENCE: "--gain",
    LOSS: "--loss",
}
# Inches. A phone shows a narrow picture at three quarters of its size.
NARROW, WIDE = 4.4, 10.0
DIVERGING = "RdBu"
_LABEL_LINES = 3
_SETTINGS: Any = {
    "font.size": 11,
    "axes.labelsize": 11,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": GRID,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "cesaro",
}


_LOCK = threading.RLock()


@contextmanager
def drawing() -> Iterator[None]:
    """Our settings, inside only, whatever style the user has; one thread at a time, since they are global to matplotlib.

    A character that the font lacks is drawn as a box and not complained about.
    """
    import matplotlib as mpl

    with _LOCK, mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        yield


def figure(width: float, height: float) -> Any:
    """A figure that a notebook shows without pyplot, which would keep it in a global list."""
    made = _figure_class()(figsize=(width, height), layout="constrained")
    made.patch.set_facecolor("white")
    return made


@cache
def _figure_class() -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """Shows itself as PNG."""

        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            FigureCanvasAgg(self)

        def _repr_png_(self) -> bytes:
            stream = BytesIO()
            with drawing():
                self.savefig(stream, format="png", dpi=110)
            return stream.getvalue()

    return NotebookFigure


def clean(axes: Any, *, grid: str | None = None, left: bool = True) -> None:
    """Take away what axes do not need, and draw a grid behind what they show."""
    axes.spines[["top", "right", *([] if left else ["left"])]].set_visible(False)
    axes.set_axisbelow(True)
    if grid is not None:
        axes.grid(axis=grid, linewidth=0.6)


def label(text: object, width: int = 24) -> str:
    """Text from data, on at most three short lines; a word that is too long is cut."""
    return textwrap.fill(visible(str(text)), width, max_lines=_LABEL_LINES, placeholder=" …")


def save_png(made: Any, file: Path) -> None:
    """Write a figure as a PNG file, on white."""
    with drawing():
        made.savefig(file, dpi=150, facecolor="white")


def svg(made: Any, name: str, alt: str) -> str:
    """The figure as an element of a page: its text stays text, its colors are the page's, its ids begin with `name`."""
    stream = StringIO()
    with drawing():
        made.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Type": None})
        made.set_layout_engine("none")  # it has its place now, for the file as well
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"<[^>]+>", lambda tag: _themed(tag[0], name), text)  # tags only: text between them is data
    head, rest = text[: text.index(">")], text[text.index(">") :]
    head = re.sub(r' (width|height|version|xmlns(:\w+)?)="[^"]*"', "", head)
    return f'{head} role="img" aria-label={quoteattr(visible(alt))}{rest}'.strip()


def _themed(tag: str, name: str) -> str:
    tag = re.sub(r'(\bid="|\bxlink:href="#)', rf"\1{name}-", tag).replace("url(#", f"url(#{name}-")
    tag = tag.replace("xlink:href=", "href=")
    for color, variable in VARIABLES.items():
        tag = tag.replace(color, f"var({variable})")
    return tag
