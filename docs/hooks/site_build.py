"""Build the documentation site into site/ and check it: `make docs` runs this file."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from public_names import all_public, in_reference, left_out, undocumented

ROOT = Path(__file__).parents[2]
FONT = "STIXTwoMath-Regular.ttf"
# The attributes with which an element fetches or names something.
ADDRESSES = ("href", "src", "data", "poster")


class Page(HTMLParser):
    """The anchors of a page, and the tags and addresses of what it links and fetches."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by the parser for every element."""
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value or "")
            elif name in ADDRESSES and value:
                self.links.append((tag, value))


def faults(site: Path) -> Iterator[str]:
    """What is wrong with a built site: links and pictures that lead nowhere, and requests to other places."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for tag, address in page.links:
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if tag != "a":
                    yield f"{name} asks another place for {address}"
                continue
            # The page for an address that does not exist is shown at any depth: its addresses start at the root.
            start = site.resolve() if address.startswith("/") else path.parent
            target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name} leads to {address}, which does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name} leads to {address}, where there is no such anchor"


def nameless(reference: Path) -> Iterator[str]:
    """What is wrong with the reference: public names without docstring, and those that no page has."""
    names = all_public()
    pages = in_reference(reference)
    yield from (f"{name} has no docstring" for name in undocumented(names | pages))
    yield from (f"{name} is not in docs/reference" for name in left_out(names, pages))


def stop_at(found: Iterator[str]) -> None:
    """End the build where there are any."""
    if lines := list(found):
        sys.exit("\n".join(["The site is not right:", *lines]))


def add_font(site: Path) -> None:
    """Add the font of the formulas, as the package that brings it has it: few systems have one that sets them well."""
    package = find_spec("ziamath")
    if package is None or package.origin is None:
        sys.exit("The font of the formulas is missing; install the docs extra with `make docs`.")
    folder = site / "assets" / "fonts"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(Path(package.origin).with_name("fonts") / FONT, folder / FONT)


def main() -> None:
    stop_at(nameless(ROOT / "docs" / "reference"))
    shutil.rmtree(ROOT / "site", ignore_errors=True)  # a page that can no longer be built must be missed
    # The generator loads our extension of Markdown, and its cache does not know that it depends on the commands.
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if code := subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        sys.exit(code)
    add_font(ROOT / "site")
    stop_at(faults(ROOT / "site"))


if __name__ == "__main__":
    main()
