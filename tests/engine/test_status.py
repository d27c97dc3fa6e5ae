import pytest

from fairway.engine.status import OK, SKIPPED, Code, Status, failed, misconfigured, unschedulable, warning


@pytest.mark.parametrize(
    ("code", "aborts", "rejects"),
    [
        (Code.SUCCESS, False, False),
        (Code.WARNING, False, False),
        (Code.ERROR, True, False),
        (Code.MISCONFIGURED, True, False),
        (Code.UNSCHEDULABLE, False, True),
        (Code.UNRESOLVABLE, False, True),
        (Code.PENDING, False, True),
        (Code.WAIT, False, False),
        (Code.SKIP, False, False),
    ],
    ids=lambda value: value.value if isinstance(value, Code) else str(value),
)
def test_status_code_properties(code: Code, aborts: bool, rejects: bool) -> None:
    assert (Status(code).aborts, Status(code).rejects) == (aborts, rejects)


def test_every_status_code_is_tested() -> None:
    assert len(Code) == 9


@pytest.mark.parametrize(
    ("status", "code", "plugin"),
    [
        (OK, Code.SUCCESS, ""),
        (SKIPPED, Code.SKIP, ""),
        (unschedulable("why", plugin="P"), Code.UNSCHEDULABLE, "P"),
        (misconfigured("why"), Code.MISCONFIGURED, ""),
        (misconfigured("why", plugin="P"), Code.MISCONFIGURED, "P"),
        (failed("why", plugin="P"), Code.ERROR, "P"),
        (warning(lambda: "why", plugin="P"), Code.WARNING, "P"),
    ],
    ids=repr,
)
def test_status_constructors(status: Status, code: Code, plugin: str) -> None:
    assert (status.code, status.plugin) == (code, plugin)
    assert status.message == ("" if code in (Code.SUCCESS, Code.SKIP) else "why")


def test_status_reasons_are_joined_by_commas() -> None:
    assert Status(Code.ERROR, ("one", "two")).message == "one, two"


def test_lazy_status_message_is_formatted_once() -> None:
    written: list[str] = []

    def words() -> str:
        written.append("now")
        return "long"

    status = warning(words, plugin="P")
    assert status.code is Code.WARNING
    assert written == []
    assert (status.message, status.message, status.reasons) == ("long", "long", ("long",))
    assert written == ["now"]


def test_statuses_with_equal_messages_are_equal() -> None:
    late, early = warning(lambda: "why", plugin="P"), Status(Code.WARNING, ("why",), "P")
    assert late == early
    assert len({late, early}) == 1
    assert late != Status(Code.WARNING, ("why",), "Q")
    assert late != Status(Code.WARNING, ("why not",), "P")
    assert late != Status(Code.ERROR, ("why",), "P")
    assert late != "why"
