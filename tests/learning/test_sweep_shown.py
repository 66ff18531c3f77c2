"""A sweep as a picture and in a notebook."""

import base64
import io
import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

import cesaro as cs
from cesaro.algorithms import REGISTRY, Objective

CHAIN = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
TRUTH = cs.exact.reward_rate(CHAIN.mdp, CHAIN.policy)
HOSTILE = "<script>alert(1)</script> \"'&$x^{$ </p>\n\x1b[31m\u202e\ud800 " + "long" * 30


def run(method: Any = "diff-gq1", **changes: Any) -> cs.Sweep:
    common: dict[str, Any] = {"settings": cs.grid(step_size=[0.01, 0.1]), "seeds": 4, "budget": 1_000, "quiet": True}
    return cs.sweep(method, CHAIN, **{**common, **changes})


@pytest.fixture(scope="module")
def large() -> cs.Sweep:
    """Settings that are slow, good and too large."""
    return run(settings=cs.grid(step_size=2.0 ** np.arange(-10, 3), ridge=[0.0, 0.1]), seeds=3)


def drawn(figure: Figure) -> bytes:
    """The pixels, as a headless machine draws them; whatever matplotlib warns about is an error in this test suite."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def legend(figure: Figure) -> list[str]:
    found = figure.axes[0].get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]


def curve(line: Any) -> Any:
    return np.asarray(line.get_ydata(), dtype=np.float64)


def below(figure: Figure) -> str:
    return " ".join(figure.axes[0].get_xlabel().split())


class Fragment(HTMLParser):
    """The elements and the text of a fragment; every element that is opened must be closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += attrs
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag != "img":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open and self._open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def shown(sweep: cs.Sweep) -> Fragment:
    fragment = Fragment(sweep._repr_html_())
    assert set(fragment.elements) <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "img"}
    assert {name for name, _ in fragment.attributes} <= {"style", "scope", "alt", "src"}
    source = dict(fragment.attributes)["src"] or ""
    picture = imread(io.BytesIO(base64.b64decode(source.removeprefix("data:image/png;base64,"))))
    assert picture.shape[1] > 600
    # Opaque, so that its black text is readable in a dark notebook.
    assert picture[..., 3].min() == 1.0
    return fragment


def test_rates_are_means_over_seeds() -> None:
    sweep = run()
    figure = sweep.plot()
    lines = figure.axes[0].get_lines()
    assert len(lines) == 2
    for line, rates in zip(lines, sweep.reward_rate):
        np.testing.assert_array_equal(line.get_xdata(), sweep.samples)
        np.testing.assert_allclose(curve(line), rates.mean(axis=0))
    assert legend(figure) == ["step_size = 0.01", "step_size = 0.1"]
    assert figure.axes[0].get_yscale() == "linear"
    assert "mean of 4 seeds" in below(figure)
    assert len(figure.axes[0].collections) == 2  # the bands
    low, high = (
        np.array(sweep.reward_rate[0].mean(axis=0) + sign * sweep.reward_rate[0].std(axis=0)) for sign in (-1, 1)
    )
    band: Any = figure.axes[0].collections[0].get_paths()[0].vertices
    for edge in (low, high):
        assert all(np.isclose(band[:, 1], value).any() for value in edge)
    assert drawn(figure)


def test_with_a_truth_the_best_settings_stand_in_front_on_a_logarithmic_scale(large: cs.Sweep) -> None:
    figure = large.plot(TRUTH)
    best = large.best(TRUTH)
    assert figure.axes[0].get_yscale() == "log"
    assert len(legend(figure)) == 5
    assert legend(figure)[0] == f"step_size = {best.setting['step_size']:g}, ridge = {best.setting['ridge']:g}"
    front = [line for line in figure.axes[0].get_lines() if line.get_linewidth() > 1]
    np.testing.assert_allclose(curve(front[0]), best.curve)
    gone = int(large.diverged.sum())
    assert 0 < gone < len(large.settings) - 5
    assert len(figure.axes[0].get_lines()) == len(large.settings) - gone
    assert f"gray: {len(large.settings) - gone - 5} other settings;" in below(figure)
    assert f"{gone} of 26 settings diverged in some run: not drawn" in below(figure)
    assert "1.9" in figure.axes[0].get_ylabel()
    assert drawn(figure)


def test_without_a_truth_the_colors_are_spread_over_the_last_rates(large: cs.Sweep) -> None:
    figure = large.plot()
    front = [float(curve(line)[-1]) for line in figure.axes[0].get_lines() if line.get_linewidth() > 1]
    last = np.sort(large.reward_rate[~large.diverged, :, -1].mean(axis=1))
    assert front == sorted(front)
    assert len(front) == 5
    assert last[0] < front[0] < np.median(last) < front[-1] < last[-1]
    assert "5 in color are spread over the last mean rates" in below(figure)
    assert drawn(figure)


def test_a_gray_curve_that_runs_away_does_not_squeeze_the_others() -> None:
    sweep = run()
    rates = np.concatenate([sweep.reward_rate] * 4)
    rates[0] *= 1e9
    settings = [{"step_size": 0.01 * place} for place in range(1, 9)]
    wild = cs.Sweep("m", settings, sweep.seeds, sweep.samples, rates, np.full(rates.shape[:2], -1))
    assert wild.plot().axes[0].get_ylim()[1] < 10


def test_chosen_settings_and_axes_of_the_caller(large: cs.Sweep) -> None:
    figure = Figure()
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    gone = int(np.flatnonzero(large.diverged)[-1])
    assert large.plot(settings=[4, gone, 4], axes=right) is figure
    assert left.get_lines() == []
    labels = [text.get_text() for text in right.get_legend().get_texts()]
    assert labels[0] == f"step_size = {large.settings[4]['step_size']:g}, ridge = 0"
    assert labels[1].endswith(" (diverged)")
    assert len(labels) == 2
    assert len(legend(large.plot(TRUTH, settings=3))) == 1
    assert drawn(figure)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"settings": 2}, "from 0 to 1. Got 2;"),
        ({"settings": [0, -1]}, "Got -1;"),
        ({"settings": ["step_size"]}, "Got 'step_size';"),
        ({"settings": True}, "Got True;"),
        ({"settings": []}, "at least one setting"),
        ({"truth": "much"}, "truth must be"),
        ({"truth": float("nan")}, "truth must be"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cs.InputError, match=re.escape(sentence)):
        run().plot(**arguments)


def test_everything_diverged() -> None:
    sweep = run("diff-sgq", settings=cs.grid(step_size=[8.0, 16.0]))
    assert sweep.diverged.all()
    for figure in (sweep.plot(), sweep.plot(TRUTH), sweep.plot(settings=[0])):
        assert any("Every setting diverged" in text.get_text() for text in figure.axes[0].texts)
        assert "2 of 2 settings diverged" in below(figure)
        assert drawn(figure)
    fragment = shown(sweep)
    assert "8 of 8 runs diverged" in fragment.text
    assert fragment.rows[1:] == [["step_size = 8", "–", "–", "4"], ["step_size = 16", "–", "–", "4"]]


def test_some_runs_of_a_setting_diverged() -> None:
    whole = run()
    rates, ends = whole.reward_rate.copy(), whole.diverged_at.copy()
    rates[1, 2, 5:], ends[1, 2] = np.nan, 550
    sweep = cs.Sweep(whole.method, whole.settings, whole.seeds, whole.samples, rates, ends)
    figure = sweep.plot()
    assert legend(figure) == ["step_size = 0.01"]
    assert "1 of 2 settings diverged in some run: not drawn" in below(figure)
    assert "drawn up to there" in below(sweep.plot(settings=[0, 1]))
    alive = rates[1, [0, 1, 3], -1]
    assert shown(sweep).rows[2] == ["step_size = 0.1", f"{alive.mean():.6g}", f"{alive.std():.2g}", "1"]


def test_one_setting_one_seed_one_record() -> None:
    sweep = run(settings=None, seeds=1, budget=100)
    assert sweep.reward_rate.shape == (1, 1, 1)
    for figure in (sweep.plot(), sweep.plot(TRUTH)):
        (line,) = figure.axes[0].get_lines()
        assert line.get_marker() == "o"
        assert "one seed" in below(figure)
        assert legend(figure)[0].startswith("step_size = ")
        assert drawn(figure)
    fragment = shown(sweep)
    assert "1 setting × 1 seed, 100 samples each, 0 of 1 runs diverged" in fragment.text
    assert fragment.rows[1][1:] == [f"{sweep.reward_rate[0, 0, 0]:.6g}", "–", "0"]


def test_a_single_record_of_several_seeds_shows_their_spread() -> None:
    figure = run(budget=100).plot(TRUTH)
    assert len(figure.axes[0].collections) == 2
    assert drawn(figure)


def test_rates_that_are_no_numbers() -> None:
    whole = run()
    for value in (np.nan, np.inf, 0.0):
        rates = np.full_like(whole.reward_rate, value)
        sweep = cs.Sweep("m", whole.settings, whole.seeds, whole.samples, rates, whole.diverged_at)
        assert drawn(sweep.plot())
        assert drawn(sweep.plot(0.0))
        shown(sweep)


def test_a_long_table_is_cut_and_the_rest_counted(large: cs.Sweep) -> None:
    fragment = shown(large)
    assert len(fragment.rows) == 1 + 12
    assert "14 more settings; to_frame() has all." in fragment.text
    assert fragment.rows[1][0] == f"step_size = {2.0**-10:.6g}, ridge = 0"
    assert fragment.rows[-1][0] == "step_size = 4, ridge = 0.1"
    assert fragment.rows[0] == ["setting", "mean final rate", "sd over seeds", "diverged runs"]
    mean, spread = large.reward_rate[0, :, -1].mean(), large.reward_rate[0, :, -1].std()
    assert fragment.rows[1][1:] == [f"{mean:.6g}", f"{spread:.2g}", "0"]


def test_hostile_names_stay_text() -> None:
    def own(approximator: Any, inputs: int) -> Objective:
        built = REGISTRY["diff-sgq"](approximator, inputs)
        return built._replace(defaults={**built.defaults, "_<b>$\\frac{$": 0.5})

    own.__name__ = HOSTILE
    sweep = run(own, settings=[{"step_size": 0.1, "_<b>$\\frac{$": value} for value in (0.0, 1.0)])
    fragment = shown(sweep)  # which allows no element and no attribute but its own
    assert "Sweep of <script>alert(1)</script>" in fragment.text
    assert "\\x1b[31m" in fragment.text
    assert fragment.rows[1][0] == "_<b>$\\frac{$ = 0"
    assert "\x1b" not in fragment.text
    assert "\n" not in fragment.text
    figure = sweep.plot(TRUTH)
    assert sorted(label.strip() for label in legend(figure)) == ["_<b>$\\frac{$ = 0", "_<b>$\\frac{$ = 1"]
    assert len(figure.axes[0].get_title()) <= 60
    assert drawn(figure)


@pytest.mark.slow
def test_a_notebook_shows_the_figure_and_pyplot_does_not_keep_it() -> None:
    code = (
        "import sys, cesaro as cs\n"
        "chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)\n"
        "sweep = cs.sweep('diff-sgq', chain, seeds=2, budget=200, quiet=True)\n"
        "assert 'matplotlib' not in sys.modules\n"
        "import matplotlib\n"
        "state = lambda: {k: str(matplotlib.rcParams[k]) for k in matplotlib.rcParams if k != 'backend'}\n"
        "before = state()\n"
        "assert sweep.plot()._repr_png_()[:4] == b'\\x89PNG'\n"
        "assert len(sweep._repr_html_()) < 200_000\n"
        "assert state() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
