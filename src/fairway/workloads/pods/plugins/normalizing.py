"""Scale raw scores to 0..100 by the highest one."""

import numpy as np

from fairway.engine.points import Amounts, Extent, Scores

HIGHEST = 100


class ScaledByHighest:
    """The highest raw score becomes 100. If all are 0, they stay 0."""

    def normalize(self, raw: float, extent: Extent, /) -> int:
        high = int(extent.high)
        return HIGHEST * int(raw) // high if high else int(raw)

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        high = int(extent.high)
        scores = raw.astype(np.int64)
        return HIGHEST * scores // high if high else scores


class ReversedByHighest:
    """The highest raw score becomes 0, and 0 becomes 100."""

    def normalize(self, raw: float, extent: Extent, /) -> int:
        high = int(extent.high)
        return HIGHEST - HIGHEST * int(raw) // high if high else HIGHEST

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        high = int(extent.high)
        if not high:
            return np.full(len(raw), HIGHEST, dtype=np.int64)
        return HIGHEST - HIGHEST * raw.astype(np.int64) // high
