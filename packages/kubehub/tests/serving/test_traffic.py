"""Memory for bodies and responses: each user has a share."""

import pytest

from kubehub.serving.traffic import HeldBytes
from kubehub.status import Refusal


def test_one_user_can_hold_at_most_its_share_of_memory() -> None:
    held = HeldBytes(400)
    with held.reserve("greedy") as first, held.reserve("greedy") as second, held.reserve("other") as other:
        first.take(60)
        second.take(40)
        with pytest.raises(Refusal) as refused:
            second.take(1)
        assert refused.value.code == 429
        other.take(100)
    assert (held.bytes, held.owned) == (0, {})


def test_single_request_may_exceed_the_share_of_its_user() -> None:
    held = HeldBytes(400)
    with held.reserve("user") as room, held.reserve("user") as another:
        room.take(300)
        with pytest.raises(Refusal):
            another.take(1)


def test_administrators_are_exempt_from_the_memory_share() -> None:
    held = HeldBytes(400)
    with held.reserve("") as first, held.reserve("") as second:
        first.take(200)
        second.take(150)
        with pytest.raises(Refusal):
            second.take(100)
