"""The generated parts of docs/reference are current."""

import re
from pathlib import Path

import conditions
import pytest
import reference


@pytest.mark.parametrize("page", sorted(reference.REFERENCE.glob("*.md")), ids=lambda page: page.name)
def test_generated_parts_are_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == reference.render(text), f"{page.name} is outdated: run `make reference`"


def test_every_type_and_reason_of_a_condition_is_defined() -> None:
    assert conditions.undefined() == set()


def test_every_reason_of_a_failing_provider_is_documented() -> None:
    """Providers raise errors with these reasons, which become those of conditions."""
    reason = re.compile(r'^[A-Z_]+: Final = "([A-Z][a-z]+(?:[A-Z][A-Za-z]+)+)"$', re.MULTILINE)
    pages = "".join(page.read_text(encoding="utf-8") for page in conditions.PAGES)
    modules = (path.read_text(encoding="utf-8") for path in (conditions.SOURCE / "providers").rglob("*.py"))
    reasons = {name for text in modules if "ProviderError(" in text for name in reason.findall(text)}
    assert {name for name in reasons if f"`{name}`" not in pages} == set()


def test_every_generated_part_is_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in reference.REFERENCE.glob("*.md"))
    assert sorted(name for _, name, _ in reference.PART.findall(pages)) == sorted(reference.PARTS)
