"""The word check finds listed words in prose, strings, docstrings and comments, and listed names of variables."""

import words

LISTS = words.load("""
[[word]]
pattern = "nobody"
reason = "names no actor"
[pending]
folders = []
[[name]]
name = "each"
reason = "name the thing"
""")


def test_word_in_prose_is_reported_with_its_line() -> None:
    (violation,) = words.check_markdown("a.md", "# Title\n\nNobody answers.\n", LISTS.words)
    assert str(violation) == "a.md:3: 'Nobody': names no actor"


def test_word_in_a_code_block_is_ignored() -> None:
    assert not list(words.check_markdown("a.md", "`nobody`\n```sh\nnobody\n```\nbusybody\n", LISTS.words))


def test_word_in_a_string_is_reported_but_not_in_a_docstring_or_comment() -> None:
    source = 'def f():\n    """nobody"""\n    return f"{1} nobody"  # nobody\n'
    assert [violation.line for violation in words.check_source("a.py", source, LISTS.words)] == [3]


def test_word_in_a_docstring_or_comment_is_reported_but_not_in_its_code() -> None:
    source = (
        'LIMIT = 3\n"""What nobody\nexceeds: ``nobody``."""\n'
        'def f():\n    return "nobody"  # nobody asks for `nobody`\n'
    )
    assert [violation.line for violation in words.check_comments("a.py", source, LISTS.words)] == [2, 5]


def test_listed_words_and_names_have_reasons() -> None:
    lists = words.load(words.WORDS.read_text(encoding="utf-8"))
    assert all([*(word.reason for word in lists.words), *lists.names.values()])


def test_name_that_says_nothing_is_reported_where_it_is_bound() -> None:
    source = (
        "for each in taints:\n    each.clear()\n"
        "[each for each in taints]\n"
        "sorted(taints, key=lambda each: each)\n"
        "taint.each, rate = 1, limit(each=2)  # for each in\n"
    )
    assert [violation.line for violation in words.check_names("a.py", source, LISTS.names)] == [1, 3, 4]


def test_pending_folders_exist() -> None:
    lists = words.load(words.WORDS.read_text(encoding="utf-8"))
    folders = (*lists.pending, *lists.pending_names)
    assert [folder for folder in folders if not (words.ROOT / folder).is_dir()] == []
