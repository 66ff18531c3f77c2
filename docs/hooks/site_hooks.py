"""What `mkdocs build` does beside MkDocs: checks of the reference, formulas and their font, the page of the command line."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from command_page import MARKER, commands_markdown
from formulas import with_mathml
from public_names import all_public, in_reference, left_out, undocumented

REFERENCE = Path(__file__).parents[1] / "reference"
FONT = "STIXTwoMath-Regular.ttf"


def on_pre_build(**_: Any) -> None:
    """Stop where a public name has no docstring, or is not in the reference."""
    names = all_public()
    try:
        pages = in_reference(REFERENCE)
    except ValueError as error:
        raise PluginError(str(error)) from error
    if missing := undocumented(names | pages):
        raise PluginError(f"{len(missing)} public names have no docstring: {', '.join(missing)}; write them.")
    if missing := left_out(names, pages):
        raise PluginError(f"{len(missing)} public names are not in docs/reference: {', '.join(missing)}; add them.")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the font of the formulas, as the package that brings it has it: few systems have one that sets them well."""
    package = find_spec("ziamath")
    if package is None or package.origin is None:
        raise PluginError("The font of the formulas is missing; install the docs extra with `make docs`.")
    path = Path(package.origin).with_name("fonts") / FONT
    files.append(File.generated(config, f"assets/fonts/{FONT}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the commands in the place that a page keeps for them."""
    return markdown.replace(MARKER, commands_markdown()) if MARKER in markdown else markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Formulas as MathML; a page of the site must show all of them."""
    try:
        return with_mathml(html)
    except ValueError as error:
        raise PluginError(f"{page.file.src_uri}: {error}") from error
