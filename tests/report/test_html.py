"""The page and the fragments without a browser: what they say, in which order, and that data stay text. See tests/browser too."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import cesaro as cs
from cesaro.diagnostics import Diagnostic
from cesaro.estimators import Estimate
from cesaro.report.folder import ReportFolder, write_evaluation
from cesaro.report.html import evaluation_page
from cesaro.report.pictures import KINDS, OF_WORLDS, pictures, rates_picture
from cesaro.report.style import VARIABLES, svg


class Page(HTMLParser):
    """Tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self._hidden = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._hidden += tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def in_order(page: Page, expected: list[str]) -> None:
    places = [page.text.index(words) for words in expected]
    assert places == sorted(places)


def no_id_twice(page: Page) -> None:
    ids = [value for name, value in page.attributes if name == "id"]
    assert ids
    assert len(ids) == len(set(ids))


@pytest.fixture(scope="module")
def log() -> cs.Transitions:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 3_000)
    state = np.concatenate([[0], np.cumsum(action)[:-1]]) % 3
    return cs.Transitions(state, action, (state == 2) + rng.normal(size=3_000))


@pytest.fixture(scope="module")
def answer(log: cs.Transitions) -> cs.Evaluation:
    found = cs.evaluate(log, "constant:1", unit="€ per visit", name="always", quiet=True)
    odd = Diagnostic("odd", 1.0, "caution", "Something is odd.", "Look at it.")
    worse = Diagnostic("worse", 1.0, "bad", "Something is worse.", "Mend it.")
    return replace(found, diagnostics=(worse, odd, *found.diagnostics))


@pytest.fixture(scope="module")
def page(answer: cs.Evaluation) -> Page:
    return Page(evaluation_page(answer, [rates_picture(answer), *pictures(answer)]))


def test_the_answer_comes_first_then_what_is_wrong_then_pictures_then_settings(
    page: Page, answer: cs.Evaluation
) -> None:
    expected = [
        "'always' would earn 0.3",  # the title of the window
        "€ per visit in the long run",
        "Do not rely on the answer until the problems marked bad below are fixed.",
        "The 95 % interval is",
        "The log itself earned",
        "The difference is",
        "What could be wrong",
        "Something is worse.",
        "What to do: Mend it.",
        "Something is odd.",
        "Checks that are fine",
        "Pictures",
        "Reward over time",
        "Values by state",
        "Where the target gains and loses",
        "Influence over time",
        "The target's actions against the log's",
        "How this was made",
        "random state",
        "transitions",
        "numpy",
    ]
    in_order(page, expected)
    assert answer.run["versions"]["numpy"] in page.text
    assert "if both earned the same" not in page.text  # no odds of an answer that is bad
    fine = replace(answer, diagnostics=())
    assert "if both earned the same" in Page(evaluation_page(fine, [rates_picture(fine)])).text


def test_the_page_is_one_file_without_scripts(page: Page) -> None:
    assert page.tags.count("h1") == 1
    assert page.tags.count("svg") == 6
    assert not {"script", "link", "iframe", "object", "embed", "form"} & set(page.tags)
    outside = [
        value for name, value in page.attributes if name in ("src", "href") and not re.match("#|data:", value or "")
    ]
    assert outside == []
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    no_id_twice(page)
    assert ("lang", "en") in page.attributes


def test_pictures_follow_the_theme_and_keep_data_as_they_are(answer: cs.Evaluation) -> None:
    strange = '#1b2733 id="x" url(#y) xlink:href="#z" <b>&amp;</b> $\\alpha$ {{ 7 * 7 }}'
    picture = rates_picture(replace(answer, name=strange))
    drawn = svg(picture.figure, "p", strange)
    inside = Page(drawn)
    assert "b" not in inside.tags
    # A long name is cut to three lines; what is there is unchanged.
    assert '#1b2733 id="x"' in inside.text
    assert ("aria-label", strange) in inside.attributes
    styles = " ".join(value or "" for name, value in inside.attributes if name == "style")
    assert not any(color in styles for color in VARIABLES)
    assert "var(--target)" in styles


@pytest.mark.parametrize(
    "strange", ["<script>boom</script>", '"><img src=x onerror=boom>', "</style>", "{{ 7 * 7 }}{% raw %}"]
)
def test_hostile_names_stay_text(answer: cs.Evaluation, strange: str) -> None:
    plain = Page(evaluation_page(answer, [rates_picture(answer)]))
    odd = replace(
        answer,
        name=strange,
        unit=strange,
        log={**answer.log, "name": strange, "notes": [strange], "columns": {"observation": [strange]}},
        settings={strange: strange},
        warnings=(*answer.warnings, strange),
        run={**answer.run, "command": strange},
    )
    page = Page(evaluation_page(odd, [rates_picture(answer)]))
    assert set(page.tags) <= {*plain.tags, "pre"}
    assert page.tags.count("img") == page.tags.count("script") == 0
    assert page.text.count(strange) >= 6
    assert "49" not in page.text.replace(strange, "").split()
    assert strange in Page(odd._repr_html_()).text


def test_fragments_show_the_answer(answer: cs.Evaluation, log: cs.Transitions) -> None:
    shown = Page(answer._repr_html_())
    assert "'always' would earn" in shown.text
    assert "Something is worse." in shown.text
    assert shown.tags.count("svg") == 1
    both = cs.compare(log, {"always": "constant:1", "coin": "uniform"}, quiet=True)
    shown = Page(both._repr_html_())
    assert "has the highest rate" in shown.text
    assert "beyond noise?" in shown.text
    no_id_twice(Page(answer._repr_html_() + both._repr_html_()))


def test_a_page_of_costs_has_one_sign(answer: cs.Evaluation) -> None:
    """The log is said to cost 2 and the target 1: the difference is −1 in the sentence, in its card and below its picture."""
    target, behavior, difference = (Estimate(value, 0.1, 100.0) for value in (-1.0, -2.0, 1.0))
    shown = replace(answer, cost="bill", target=target, behavior=behavior, difference=difference)
    drawn = [rates_picture(shown), *pictures(shown)]
    page = Page(evaluation_page(shown, drawn)).text
    assert page.count("-1.00") >= 3
    assert "+1.00" not in page
    assert "cost 'bill' € per visit" in page
    assert "difference of costs" in page
    assert "Findings speak of rewards, which are minus 'bill'." in page
    assert "the log's rate of 2 and the target's of 1." in page
    assert drawn[1].title == "Cost over time"


@pytest.mark.parametrize("kind", ["reward", "influence"])
def test_a_long_unit_stays_clear_of_the_legend(answer: cs.Evaluation, kind: str) -> None:
    made = replace(answer, unit="euros and cents per minute of a day of irrigation in summer").plot(kind)
    made.canvas.draw()
    (axes,) = made.axes
    words = [
        axes.yaxis.label,
        *(text for text in axes.get_children() if "irrigation" in getattr(text, "get_text", str)()),
    ]
    assert any("irrigation" in text.get_text() for text in words)
    legends = [legend.get_window_extent() for legend in made.legends]
    assert not any(text.get_window_extent().overlaps(legend) for text in words for legend in legends)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("candidates", "rehearsal", *OF_WORLDS)])
def test_every_plot_is_a_figure_that_notebooks_show(answer: cs.Evaluation, kind: str) -> None:
    made = answer.plot(kind)
    assert isinstance(made, Figure)
    assert made._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert made.axes[0].has_data()


def test_plots_that_there_are_not_say_so(answer: cs.Evaluation, log: cs.Transitions) -> None:
    with pytest.raises(cs.InputError, match="kind must be one of rates, candidates, rehearsal, reward"):
        answer.plot("all")
    logged = cs.evaluate(log, "logged", quiet=True)
    assert logged.plot("reward").axes
    with pytest.raises(cs.InputError, match="There is no picture of values: the policy is the log itself"):
        logged.plot("values")


def test_pages_stand_without_intervals_and_for_the_log_itself(
    answer: cs.Evaluation, log: cs.Transitions, tmp_path: Path
) -> None:
    unknown = Estimate(1.0, float("nan"), 1.0)
    without = replace(answer, target=unknown, behavior=unknown, difference=unknown)
    said = Page(evaluation_page(without, [rates_picture(without)])).text
    assert "There is no interval." in said
    assert "this method does not say how certain that is" in said
    assert "nan" not in said.split()
    with ReportFolder(tmp_path / "log") as folder:
        files = write_evaluation(cs.evaluate(log, "logged", quiet=True), folder)
    assert files == ["report.html", "evaluation.json", "report.txt", "rates.png", "reward.png"]
    said = Page((tmp_path / "log/report.html").read_text(encoding="utf-8")).text
    assert "The log earned" in said
    assert "The difference" not in said


def test_constant_rewards_are_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    log = cs.Transitions(rng.integers(0, 3, 500), rng.integers(0, 2, 500), np.full(500, 2.5))
    found = cs.evaluate(log, "uniform", quiet=True)
    assert found.warnings[-1].startswith("All 499 rewards are 2.5, so that every policy earns that")
    assert "memory" not in {entry.name for entry in found.diagnostics}  # of what rounding leaves
    with ReportFolder(tmp_path / "out") as folder:
        names = write_evaluation(found, folder)
    assert not {"gains.png", "influence.png"} & set(names)
    with pytest.raises(cs.InputError, match="There is no picture of gains: all rewards are equal"):
        found.plot("gains")
    assert "All 499 rewards are 2.5" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compared(log: cs.Transitions) -> cs.Comparison:
    return cs.compare(log, {"always": "constant:1", "again": "constant:1", "coin": "uniform"}, quiet=True)


@pytest.mark.slow
@pytest.mark.usefixtures("blank_pictures")
def test_a_comparison_takes_the_place_of_an_evaluation_when_it_is_forced_to(
    answer: cs.Evaluation, compared: cs.Comparison, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    answer.save(out)
    with pytest.raises(cs.InputError, match="exists; add --force"):
        compared.save(out)
    compared.save(out, force=True)
    assert (out / "comparison.json").exists()
    assert not (out / "evaluation.json").exists()


def test_a_comparison_ranks_says_what_noise_explains_and_is_saved(compared: cs.Comparison, tmp_path: Path) -> None:
    out = tmp_path / "out"
    compared.save(out)
    assert (out / "comparison.json").exists()
    page = Page((out / "report.html").read_text(encoding="utf-8"))
    expected = [
        "highest",
        "rank",
        "adjusted p",
        "Holm's rule",
        "What could be wrong",
        "Pictures of",
        "How this was made",
    ]
    in_order(page, expected)
    assert page.tags.count("h1") == 1
    no_id_twice(page)


def test_the_users_own_style_does_not_matter_and_is_kept(answer: cs.Evaluation) -> None:
    import matplotlib as mpl

    plain = answer._repr_html_()
    with mpl.rc_context({"text.usetex": True, "axes.facecolor": "black", "font.size": 30}):
        assert answer._repr_html_() == plain
        assert mpl.rcParams["font.size"] == 30
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(lambda _: answer._repr_html_(), range(4))) == {plain}
        assert mpl.rcParams["font.size"] == 30
        assert mpl.rcParams["text.parse_math"] is True


def test_a_short_log_has_all_pictures() -> None:
    """Thirty rows are one stretch, whose mean is all there is to see over time."""
    rng = np.random.default_rng(1)
    state, action = rng.integers(0, 2, 31), rng.integers(0, 2, 31)
    found = cs.evaluate(cs.Transitions(state, action, state + rng.normal(size=31)), "constant:1", quiet=True)
    assert len(found.views.over_time.reward) == 1
    assert {picture.name for picture in pictures(found)} >= {"reward", "values", "gains", "support"}
