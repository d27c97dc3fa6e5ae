"""The one rule for numbers that readers see: ``5.5 TiB`` for ``5900907936Ki``, ``93.5`` for ``93500m`` CPU, ``65 %``.

- Bytes have a binary unit and about three digits. Other amounts are exact to a thousandth.
- Two amounts of one sentence never look equal if they are not: both are then printed in full.
- 0 % and 100 % are exact: a share that would be rounded to them is ``<1 %`` or ``>99 %``.

For tables and messages only. Machine-readable output keeps the quantity or the number.
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
    if _is_bytes(resource):
        return _in_bytes(amount)
    return canonical(quantity)


def display_milli(resource: str, amount: int) -> str:
    """Format an amount in milli-units. One without a unit of its own is a number."""
    text = f"{amount}m"
    return display_amount(resource, text) if _is_bytes(resource) else _plain(amount / 1000, 3)


def display_shortage(resource: str, left: int, asked: int) -> tuple[str, str]:
    """Format what is left and what is asked, in milli-units, so that a reader sees that it is not enough."""
    if _is_bytes(resource):
        return display_change(resource, f"{left}m", f"{asked}m")
    return display_milli(resource, left), display_milli(resource, asked)


def display_bytes(size: int) -> str:
    return _in_bytes(size)


def display_share(share: float) -> str:
    """Format a share of 1 in per cent."""
    percent = 100 * share
    if 0 < percent < 0.5:
        return "<1 %"
    if 99.5 <= percent < 100:
        return ">99 %"
    return f"{round(percent):,d} %"


def display_change(resource: str, old: str, new: str) -> tuple[str, str]:
    """Format two different amounts. If rounding would hide the difference, both are printed in full."""
    shown = display_amount(resource, old), display_amount(resource, new)
    return (canonical(old), canonical(new)) if shown[0] == shown[1] else shown


def _is_bytes(resource: str) -> bool:
    return resource in IN_BYTES or resource.startswith(HUGE_PAGES)


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
