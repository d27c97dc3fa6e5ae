"""The checker of informer batches."""

import pytest

from chaos.callbacks import Batch, Change, ChangeType, Copy, Seen

KEY = ("ns", "it")


def change(type_: ChangeType, version: int, uid: str = "u", name: str = "it") -> Change:
    return Change(type=type_, key=("ns", name), object=Seen(uid, version))


def batch(*changes: Change, epoch: int = 0, listed: bool = False) -> Batch:
    return Batch(epoch=epoch, listed=listed, changes=changes)


def taken(*batches: Batch) -> Copy:
    copy = Copy()
    for batch in batches:
        copy.take(batch)
    return copy


BEGIN = batch(change("added", 5), change("added", 3, name="other"), listed=True)


def test_batches_that_follow_each_other_are_accepted() -> None:
    copy = taken(
        BEGIN,
        batch(change("updated", 6), change("deleted", 7)),
        batch(change("added", 9, uid="v"), change("updated", 9, uid="v")),
        batch(change("deleted", 9, uid="v"), change("added", 2), listed=True, epoch=1),
        batch(change("updated", 4)),
    )
    assert copy.problems == ["epoch 0 after 1", "epoch 0 began without a list"]
    copy = taken(
        BEGIN,
        batch(change("updated", 6), change("deleted", 7)),
        batch(change("added", 9, uid="v"), change("updated", 9, uid="v")),
        batch(change("deleted", 9, uid="v"), change("added", 2), listed=True, epoch=1),
        batch(change("updated", 4), epoch=1),
    )
    assert copy.problems == []
    assert copy.objects == {KEY: Seen("u", 4), ("ns", "other"): Seen("u", 3)}
    assert copy.differences({KEY: Seen("u", 4), ("ns", "other"): Seen("u", 3)}) == []


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([batch(change("added", 6))], id="added twice"),
        pytest.param([batch(change("updated", 6, name="new"))], id="updated before it was added"),
        pytest.param([batch(change("updated", 6, uid="v"))], id="updated into another"),
        pytest.param([batch(change("deleted", 6, name="new"))], id="deleted before it was added"),
        pytest.param([batch(change("updated", 4))], id="older"),
        pytest.param([batch(change("updated", 4), listed=True)], id="older by a list"),
        pytest.param([batch(change("deleted", 4))], id="deleted in an older state"),
        pytest.param(
            [batch(change("deleted", 7)), batch(change("added", 6, uid="v"))], id="back in an older state"
        ),
        pytest.param([batch(change("updated", 6), epoch=1)], id="epoch without a list"),
        pytest.param(
            [batch(listed=True, epoch=1), batch(change("updated", 6), listed=True)], id="epoch gone back"
        ),
        pytest.param(
            [batch(change("updated", 4), listed=True, epoch=1), batch(change("updated", 3), epoch=1)],
            id="older in the new epoch",
        ),
    ],
)
def test_batches_that_do_not_follow_each_other_are_reported(batches: list[Batch]) -> None:
    assert taken(BEGIN, *batches).problems


def test_differences_from_the_hub_are_reported() -> None:
    copy = taken(BEGIN)
    differences = copy.differences({KEY: Seen("u", 6), ("ns", "new"): Seen("w", 7)})
    assert [difference.split(" is ")[0] for difference in differences] == [
        "('ns', 'it')",
        "('ns', 'new')",
        "('ns', 'other')",
    ]
