"""Where a log goes: finished streams wait in `OUT.partial/`, and `OUT` appears when it is complete."""

from collections.abc import Iterable
from typing import Any

from cesaro.errors import InputError
from cesaro.files import Workspace
from cesaro.simulation.streams import Arrays, Job


class Sink(Workspace):
    """A log in the making. The same settings find the streams of an interrupted run again; others are refused."""

    def piece(self, name: str) -> Arrays:
        """A stream that was stored."""
        found = self.load(name)
        if found is None:
            raise InputError(f"'{self.path}' must keep the stream {name!r}. Got a damaged file; run it again.")
        return found

    def write(self, about: dict[str, Any], job: Job, streams: Iterable[Arrays]) -> None:
        """Write the log from all its streams, in order, and let it appear."""
        raise NotImplementedError
