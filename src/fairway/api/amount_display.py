"""Format amounts of resources for readers: ``5.5 TiB`` for ``5900907936Ki``, ``93.5`` for ``93500m`` of CPU.

For tables and messages only. Machine-readable output keeps the quantity.
"""

from typing import Final

from fairway.api.cluster import canonical
from kubewire.api.quantity import QuantityError, quantity_float

CPU: Final = "cpu"
IN_BYTES: Final = ("memory", "ephemeral-storage", "storage")
HUGE_PAGES: Final = "hugepages-"

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LARGEST: Final = 1024.0 ** len(_UNITS)


def display_amount(resource: str, quantity: str | int | float) -> str:
    """Format bytes with three digits, CPUs in thousandths. An invalid quantity is returned unchanged."""
    try:
        amount = quantity_float(quantity)
    except QuantityError:
        return str(quantity)
    if not abs(amount) < _LARGEST:
        return canonical(quantity)
    if resource == CPU:
        return _plain(amount, 3)
    if resource in IN_BYTES or resource.startswith(HUGE_PAGES):
        return _in_bytes(amount)
    return canonical(quantity)


def display_change(resource: str, old: str, new: str) -> tuple[str, str]:
    """Format two different amounts. If rounding would hide the difference, both are printed in full."""
    shown = display_amount(resource, old), display_amount(resource, new)
    return (canonical(old), canonical(new)) if shown[0] == shown[1] else shown


def _in_bytes(amount: float) -> str:
    unit = 0
    while abs(round(amount)) >= 1024 and unit < len(_UNITS) - 1:
        amount /= 1024
        unit += 1
    return f"{_plain(amount, 2 if abs(amount) < 10 else 1 if abs(amount) < 100 else 0)} {_UNITS[unit]}"


def _plain(number: float, places: int) -> str:
    text = f"{number:.{places}f}"
    text = text.rstrip("0").rstrip(".") if places else text
    return "0" if text == "-0" else text
