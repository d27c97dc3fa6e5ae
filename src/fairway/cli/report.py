"""What a command did on a hub: a sentence for each object, or all of them as a YAML or JSON document."""

import sys
from contextlib import AbstractContextManager
from types import TracebackType

from fairway.cli.options.dry_run import DRY_RUN
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say


class ChangeReport(AbstractContextManager["ChangeReport"]):
    """Prints sentences at once, and the document at the end: also after an error, if something was done before."""

    def __init__(self, output: OutputFormat, *, dry_run: bool = False) -> None:
        self._output, self._dry_run = output, dry_run
        self._objects: list[dict[str, object]] = []

    def add(
        self, message: str, *, kind: str, name: str, result: str, namespace: str = "", changed: bool = True
    ) -> None:
        """ChangeReport what became of an object. ``changed``: whether it was written, or would have been."""
        dry_run = changed and self._dry_run
        if self._output == "table":
            say(message + (DRY_RUN if dry_run else ""))
        place = {"namespace": namespace} if namespace else {}
        self._objects.append(
            {"kind": kind, "name": name, **place, "result": result, "message": message, "dryRun": dry_run}
        )

    def note(self, message: str) -> None:
        """Print what is about no single object."""
        say(message, stream=None if self._output == "table" else sys.stderr)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._output != "table" and (kind is None or self._objects):
            emit([], columns={}, output=self._output, document=self._objects)
