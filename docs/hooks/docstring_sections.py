"""Docstrings as the reference reads them: our `Example:` is the section that the Google style calls `Examples:`."""

import re
from typing import Any

import griffe

HEADING = re.compile(r"^Example:$", flags=re.MULTILINE)


class ExampleSections(griffe.Extension):  # type: ignore[misc] # not installed for every check of types
    """Shows the lines of an example as code, not as quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute that was read."""
        if obj.docstring is not None:
            obj.docstring.value = HEADING.sub("Examples:", obj.docstring.value)
