"""The word check finds listed words in prose and in strings that users read, and only there."""

import words

LIST, _ = words.load("""
[[word]]
pattern = "nobody"
reason = "names no actor"
[pending]
folders = []
""")


def test_word_in_prose_is_reported_with_its_line() -> None:
    (found,) = words.check_markdown("a.md", "# Title\n\nNobody answers.\n", LIST)
    assert str(found) == "a.md:3: 'Nobody': names no actor"


def test_word_in_a_code_block_is_ignored() -> None:
    assert not list(words.check_markdown("a.md", "`nobody`\n```sh\nnobody\n```\nbusybody\n", LIST))


def test_word_in_a_string_is_reported_but_not_in_a_docstring_or_comment() -> None:
    source = 'def f():\n    """nobody"""\n    return f"{1} nobody"  # nobody\n'
    assert [each.line for each in words.check_source("a.py", source, LIST)] == [3]


def test_every_word_has_a_reason() -> None:
    listed, _ = words.load(words.WORDS.read_text(encoding="utf-8"))
    assert all(each.reason for each in listed)
