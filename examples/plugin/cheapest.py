"""Cheapest: prefers clusters in cheap regions."""

from collections.abc import Mapping

from fairway.engine.points import Context, Reads, Timeless

REGION = ("label", "region")


class Cheapest(Timeless):
    """A region that costs 0 cents gets 100 points, one that costs 200 or more gets -100; unknown ones get none."""

    name = "Cheapest"

    def __init__(self, *, cents: Mapping[str, int] | None = None) -> None:
        self._cents = dict(cents or {"ap-southeast": 120, "eu-central": 40, "us-east": 10})

    def score(self, context: Context, row: int, /) -> int | None:
        cents = self._cents.get(str(context.snapshot.codes(REGION).value(row)))
        return None if cents is None else max(-100, 100 - cents)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({REGION}))
