"""Looks that studies share: names and colors of methods, words for numbers, empty figures, grids of panels, legends."""

import math
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colors, which color-blind readers can tell apart; line styles and markers tell them apart in print.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
_DASHED, _DOTTED, _BOTH = (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5))

# The name, color and line style of every method.
METHODS: dict[str, tuple[str, str, Any]] = {
    "diff-sgq": ("Diff-SGQ", BLUE, "-"),
    "diff-gq1": ("Diff-GQ1", ORANGE, _DASHED),
    "diff-gq2": ("Diff-GQ2", GREEN, _DOTTED),
    "gradient-dice": ("GradientDICE", RED, _BOTH),
    "diff-gq3": ("Diff-GQ3", PURPLE, "-"),
    "diff-gq4": ("Diff-GQ4", SKY, _DASHED),
    "projected-diff-gq1": ("Proj. Diff-GQ1", "#000000", _DOTTED),
    "projected-diff-gq2": ("Proj. Diff-GQ2", "#7F7F7F", _BOTH),
}
LABELS = {method: label for method, (label, _, _) in METHODS.items()}
COLORS = {method: color for method, (_, color, _) in METHODS.items()}


class BestSetting(Protocol):
    """The final error of a method at its best setting, and its standard deviation over runs."""

    @property
    def best(self) -> int | None: ...
    @property
    def error(self) -> float: ...
    @property
    def spread(self) -> float: ...


def final_error(cell: BestSetting, is_lowest: bool) -> str:
    """The final error for a table of the terminal, where the lowest is bold."""
    if cell.best is None:
        return "all diverged"
    text = f"{cell.error:.4f} ({cell.spread:.4f})"
    return f"[bold]{text}[/bold]" if is_lowest else text


def power(step_size: float) -> str:
    """`2^-6` for a power of two."""
    exponent = math.log2(step_size)
    return f"2^{exponent:.0f}" if exponent.is_integer() else f"{step_size:g}"


def line_of(method: str) -> Any:
    """The line of a method in a legend."""
    from matplotlib.lines import Line2D

    label, color, style = METHODS[method]
    return Line2D([], [], color=color, linestyle=style, linewidth=1.8, label=label)


def blank(width: float, height: float) -> "Figure":
    """An empty figure in inches, whose layout is looked for."""
    figure = _figure(width, height)
    figure.set_layout_engine("constrained")
    return figure


def prepare() -> None:
    """Load matplotlib, its fonts and its reader of formulas, which takes longer than a figure of many panels."""
    figure = _figure(1, 1)
    axes = figure.subplots()
    axes.set_yscale("log")
    axes.set_title("$\\pi_0 = 1$")
    figure.canvas.draw()


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def grid(
    rows: int,
    columns: int,
    size: tuple[float, float],
    margins: tuple[float, float, float, float],
    gaps: tuple[float, float],
    *,
    least_columns: int = 1,
    **shared: Any,
) -> tuple["Figure", Any]:
    """Panels with gray lines, placed by hand: looking for a layout takes longer than all learning of a quick run.

    Args:
        size: of a panel with its gaps, in inches, as all lengths.
        margins: left, right, bottom, top.
        gaps: between rows, and between columns.
        least_columns: the figure is as wide as for that many.
        shared: `sharex` and `sharey` of matplotlib.
    """
    left, right, bottom, top = margins
    width, height = left + right + size[0] * max(columns, least_columns), bottom + top + size[1] * rows
    places = {
        "left": left / width,
        "right": 1 - right / width,
        "bottom": bottom / height,
        "top": 1 - top / height,
        "hspace": gaps[0] / (size[1] - gaps[0]),
        "wspace": gaps[1] / (size[0] - gaps[1]),
    }
    figure = _figure(width, height)
    axes = figure.subplots(rows, columns, squeeze=False, gridspec_kw=places, **shared)
    for axis in axes.flat:
        tidy(axis, color="#E5E5E5")
        axis.tick_params(labelsize=8)
    return figure, axes


def tidy(panel: Any, **lines: Any) -> None:
    """Leave the axes that have numbers, and put thin lines behind what is drawn."""
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(**{"color": "0.9", "linewidth": 0.6, **lines})
    panel.set_axisbelow(True)


def name_all(figure: "Figure", x: str, y: str, edge: float) -> None:
    """Names of the axes of all panels, so far from the edge."""
    figure.supxlabel(x, fontsize=11, y=edge / figure.get_figheight(), va="bottom")
    figure.supylabel(y, fontsize=12, x=edge / figure.get_figwidth(), ha="left")


def legend_above(figure: "Figure", handles: list[Any], title: str, edge: float, **looks: Any) -> None:
    """A legend of all panels with a title, so far from the edge."""
    anchor = (0.5, 1 - edge / figure.get_figheight())
    looks |= {"bbox_to_anchor": anchor, "borderaxespad": 0, "frameon": False}
    figure.legend(handles=handles, loc="upper center", title=title, **looks)
