"""Sums over topology domains: all nodes with the same value of a label."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fairway.fleet.bitmap import Mask
from fairway.fleet.snapshot import Snapshot
from fairway.nodes.cells import label

Counts = npt.NDArray[np.int64]


def domain_codes(snapshot: Snapshot[Any], topology_key: str) -> npt.NDArray[np.int32]:
    """Return the domain of each row; 0 for rows without the label."""
    return snapshot.codes(label(topology_key)).codes


def domain_count(snapshot: Snapshot[Any], topology_key: str) -> int:
    """Return the number of codes, with that of no domain."""
    return len(snapshot.codes(label(topology_key)).values)


def domain_sums(
    snapshot: Snapshot[Any], topology_key: str, amounts: Counts, *, among: Mask | None = None
) -> Counts:
    """Return the sum of the amounts of each domain, by code; 0 for rows without the label."""
    codes = domain_codes(snapshot, topology_key)
    if among is not None:
        codes, amounts = codes[among], amounts[among]
    sums = np.bincount(codes, weights=amounts, minlength=domain_count(snapshot, topology_key))
    sums[0] = 0
    return sums.astype(np.int64)


def domains_among(snapshot: Snapshot[Any], topology_key: str, among: Mask | None) -> Mask:
    """Return which domains have one of these rows, by code."""
    codes = domain_codes(snapshot, topology_key)
    found = np.zeros(domain_count(snapshot, topology_key), dtype=np.bool_)
    found[codes if among is None else codes[among]] = True
    found[0] = False
    return found
