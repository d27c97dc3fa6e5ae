import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.message_format import LONGEST_MESSAGE, describe, tidy, tidy_reason
from fairway.providers.provider import FAILED


class Mute(Exception):
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
        (Mute(), "Mute without a printable message"),
    ],
)
def test_what_others_say_is_one_line_that_can_be_printed(given: object, words: str) -> None:
    assert tidy(given) == words


def test_words_are_few() -> None:
    assert tidy("x" * 1_000_000) == "x" * (LONGEST_MESSAGE - 1) + "…"
    assert len(tidy("word " * 1_000)) == LONGEST_MESSAGE
    # What follows is not looked at, but that there is more is said.
    assert tidy("few" + " " * 1_000_000 + "words") == "few…"


@given(st.text(st.characters()))
def test_any_text_can_be_stored_and_shown(text: str) -> None:
    words = tidy(text)
    assert words.encode() is not None
    assert words.isprintable()
    assert tidy(words) == words


def test_errors_are_named_by_their_kind() -> None:
    assert describe(ValueError("one\ntwo")) == "ValueError: one two"
    assert describe(KeyError()) == "KeyError"
    assert describe(Mute()) == "Mute: Mute without a printable message"


@pytest.mark.parametrize("reason", ["", "no data", "x" * 300, "-", "1st", "é", "A\n", None, 7, b"A", ["A"]])
def test_a_reason_that_the_hub_would_refuse(reason: object) -> None:
    assert tidy_reason(reason) == FAILED


@pytest.mark.parametrize("reason", ["NoData", "A", "No_data:x"])
def test_a_reason_that_it_takes(reason: str) -> None:
    assert tidy_reason(reason) == reason
