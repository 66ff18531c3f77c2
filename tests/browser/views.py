"""How pages are looked at."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class View:
    """A window; `text` scales the size of letters that the reader has set, 1 being the usual 16 pixels."""

    width: int
    height: int
    scale: float = 1.0
    mobile: bool = False
    dark: bool = False
    text: float = 1.0


PHONE, DESKTOP = View(360, 740, scale=2, mobile=True), View(1280, 900)
VIEWS = {
    "phone-light": PHONE,
    "phone-dark": replace(PHONE, dark=True),
    "desktop-light": DESKTOP,
    "desktop-dark": replace(DESKTOP, dark=True),
}
