"""Metrics as tests compare them."""

from collections.abc import Mapping


def values(exposed: bytes) -> Mapping[str, float]:
    """Parse the output of ``expose`` into values by ``name{label="value"}``."""
    lines = (line.rpartition(" ") for line in exposed.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}
