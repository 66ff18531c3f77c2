"""Whatever these tests make the readers say names no argument of Python on the command line."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from cesaro.errors import CesaroError
from cesaro.text import for_command_line

ARGUMENT = re.compile(
    r"(?<![\w-])(observation|action|reward|next_observation|trajectory|time|terminated|truncated|weight|available"
    r"|on_termination|on_truncation|kinds|gap|stream|skip_bad_files)=(?!(category|number)\b)"
)


@pytest.fixture(autouse=True)
def _messages_are_worded() -> Iterator[None]:
    def checked(self: CesaroError, *given: Any) -> None:
        Exception.__init__(self, *given)
        said = for_command_line(self.message)
        assert ARGUMENT.search(said) is None, f"on the command line: {said}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CesaroError, "__init__", checked)
        yield
