"""The generated parts of docs/reference are current."""

from pathlib import Path

import conditions
import pytest
import reference


@pytest.mark.parametrize("page", sorted(reference.REFERENCE.glob("*.md")), ids=lambda page: page.name)
def test_generated_parts_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == reference.render(text), f"{page.name} is outdated: run `make reference`"


def test_every_reason_of_a_condition_is_documented() -> None:
    assert conditions.missing() == set()


def test_every_generated_part_is_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in reference.REFERENCE.glob("*.md"))
    assert sorted(name for _, name, _ in reference.PART.findall(pages)) == sorted(reference.PARTS)
