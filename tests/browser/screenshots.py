"""`python -m browser.screenshots REPORT FOLDER`: pictures of a report for the documentation. See the Makefile."""

import argparse
from pathlib import Path

from .chromium import NAMES, Chromium, executable
from .views import PHONE, View

TAKEN = {
    "report_desktop": View(1280, 1000),
    "report_dark": View(1280, 1000, dark=True),
    "report_phone": PHONE,
}
MOST_BYTES = 300_000


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of a report for the documentation.")
    parser.add_argument("report", type=Path, help="a report.html")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    given = parser.parse_args()
    path = executable()
    if path is None:
        parser.error(
            f"there is no Chromium (none of {', '.join(NAMES)} on the path); install Debian's package chromium"
        )
    with Chromium(path) as browser:
        for name, view in TAKEN.items():
            with browser.open(given.report, view) as page:
                page.evaluate("document.documentElement.style.scrollbarWidth = 'none'")
                data = page.screenshot(whole=False)
            if len(data) > MOST_BYTES:
                parser.error(
                    f"{name}.png would have {len(data):,} bytes, more than {MOST_BYTES:,}; choose a smaller view"
                )
            (given.folder / f"{name}.png").write_bytes(data)
            print(f"{given.folder / name}.png: {len(data):,} bytes")


if __name__ == "__main__":
    main()
