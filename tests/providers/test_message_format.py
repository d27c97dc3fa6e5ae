import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.message_format import LONGEST_MESSAGE, describe, tidy, tidy_reason
from fairway.providers.provider import FAILED


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("has no words")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("one\ntwo\t three ", "one two three"),
        ("a\x00b\x1b[31m", "a�b�[31m"),
        ("spool \udcff", "spool �"),
        ("größer 日本", "größer 日本"),
        (7, "7"),
        (UnprintableError(), "UnprintableError without a printable message"),
    ],
)
def test_messages_become_one_printable_line(given: object, words: str) -> None:
    assert tidy(given) == words


def test_messages_are_truncated() -> None:
    assert tidy("x" * 1_000_000) == "x" * (LONGEST_MESSAGE - 1) + "…"
    assert len(tidy("word " * 1_000)) == LONGEST_MESSAGE
    # The rest is not examined, but the cut is shown.
    assert tidy("few" + " " * 1_000_000 + "words") == "few…"


@given(st.text(st.characters()))
def test_any_message_is_encodable_and_printable(text: str) -> None:
    words = tidy(text)
    assert words.encode() is not None
    assert words.isprintable()
    assert tidy(words) == words


def test_errors_are_described_with_their_type() -> None:
    assert describe(ValueError("one\ntwo")) == "ValueError: one two"
    assert describe(KeyError()) == "KeyError"
    assert describe(UnprintableError()) == "UnprintableError: UnprintableError without a printable message"


@pytest.mark.parametrize("reason", ["", "no data", "x" * 300, "-", "1st", "é", "A\n", None, 7, b"A", ["A"]])
def test_invalid_condition_reason_is_replaced(reason: object) -> None:
    assert tidy_reason(reason) == FAILED


@pytest.mark.parametrize("reason", ["NoData", "A", "No_data:x"])
def test_valid_condition_reason_is_kept(reason: str) -> None:
    assert tidy_reason(reason) == reason
