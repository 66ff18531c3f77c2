"""What our pages have beside Markdown: formulas, and the place where the page of the command line lists the commands."""

from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor
from markdown.preprocessors import Preprocessor

from command_page import MARKER, commands_markdown
from formulas import with_mathml


class Commands(Preprocessor):  # type: ignore[misc] # not installed for every check of types
    """Puts the commands in the place that a page keeps for them."""

    def run(self, lines: list[str]) -> list[str]:
        """The lines of the page, with the commands."""
        return "\n".join(lines).replace(MARKER, commands_markdown()).split("\n") if MARKER in lines else lines


class Formulas(Postprocessor):  # type: ignore[misc]
    """Turns formulas into MathML; a page must show all of them."""

    def run(self, text: str) -> str:
        """The HTML of the page, with its formulas."""
        return with_mathml(text)


class SiteExtension(Extension):  # type: ignore[misc]
    """Both, for every page and every docstring."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Called when Markdown is about to read a page: commands come first, formulas last."""
        md.preprocessors.register(Commands(md), "cesaro-commands", 1000)
        md.postprocessors.register(Formulas(md), "cesaro-formulas", -1000)


def makeExtension(**settings: Any) -> SiteExtension:
    """What Markdown calls for the name of this module among its extensions."""
    return SiteExtension(**settings)
