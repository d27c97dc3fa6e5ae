"""Write results in the XML format of JUnit, which CI systems show."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from fairway.cli.errors import BadInputError
from fairway.cli.text import visible

CANNOT_WRITE: Final = "cannot write {path}: {reason}"


def write(path: Path, results: Sequence[tuple[str, str, tuple[str, ...]]]) -> None:
    """``results``: file, name and failures of each test, in the order of the files."""
    root = ElementTree.Element("testsuites", _counts(results))
    for file, group in groupby(results, key=lambda result: result[0]):
        cases = list(group)
        suite = ElementTree.SubElement(root, "testsuite", {"name": visible(file), **_counts(cases)})
        for _, name, failures in cases:
            # XML has no control characters, not even escaped ones.
            case = ElementTree.SubElement(
                suite, "testcase", {"classname": visible(file), "name": visible(name), "time": "0"}
            )
            if failures:
                failure = ElementTree.SubElement(case, "failure", {"message": visible(failures[0])})
                failure.text = "\n".join(map(visible, failures))
    ElementTree.indent(root)
    try:
        ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadInputError(CANNOT_WRITE.format(path=path, reason=error.strerror or error)) from None


def _counts(results: Sequence[tuple[str, str, tuple[str, ...]]]) -> dict[str, str]:
    failures = sum(bool(failed) for *_, failed in results)
    return {"tests": str(len(results)), "failures": str(failures), "errors": "0"}
