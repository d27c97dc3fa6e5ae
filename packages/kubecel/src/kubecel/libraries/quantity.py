"""Kubernetes quantities in expressions."""

from __future__ import annotations

from kubecel.declarations import Function, Library, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Failure
from kubecel.scalars import Opaque
from kubecel.types import BOOL, DOUBLE, INT, STRING, struct
from kubewire.api.quantity import Quantity, QuantityError

QUANTITY_TYPE = struct("kubernetes.Quantity")


class QuantityValue(Opaque):
    """A quantity; ``computed`` is true for the result of arithmetic.

    The reference cannot compare a parsed quantity with a computed one, only a computed one with a parsed one, so this
    fails here, too.
    """

    __slots__ = ("computed", "quantity")
    cel_type = QUANTITY_TYPE

    def __init__(self, quantity: Quantity, *, computed: bool = False) -> None:
        self.quantity = quantity
        self.computed = computed

    def equals(self, other: object) -> bool:
        if not isinstance(other, QuantityValue) or other.computed:
            raise Failure(NO_SUCH_OVERLOAD)
        return self.quantity == other.quantity


def _parse(text: str) -> object:
    try:
        return QuantityValue(Quantity.parse(text))
    except QuantityError as error:
        raise Failure(str(error)) from None


def _is_quantity(text: str) -> object:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _as_integer(value: QuantityValue) -> object:
    number = value.quantity.as_int()
    if number is None:
        raise Failure("cannot convert value to integer")
    return number


def _compare(left: QuantityValue, right: QuantityValue) -> int:
    return left.quantity.compare(right.quantity)


def _add(left: QuantityValue, right: QuantityValue) -> object:
    return QuantityValue(left.quantity + right.quantity, computed=True)


def _add_int(left: QuantityValue, right: int) -> object:
    return QuantityValue(left.quantity + Quantity.of_int(right), computed=True)


def _sub(left: QuantityValue, right: QuantityValue) -> object:
    return QuantityValue(left.quantity - right.quantity, computed=True)


def _sub_int(left: QuantityValue, right: int) -> object:
    return QuantityValue(left.quantity - Quantity.of_int(right), computed=True)


_Q = QUANTITY_TYPE
_PAIR = (_Q, _Q)

QUANTITIES = Library(
    "kubernetes.quantity",
    (
        Function("quantity", (Overload("string_to_quantity", (STRING,), _Q, _parse),)),
        Function("isQuantity", (Overload("is_quantity_string", (STRING,), BOOL, _is_quantity),)),
        Function("sign", (Overload("quantity_sign", (_Q,), INT, lambda q: q.quantity.sign),)),
        Function(
            "isGreaterThan",
            (
                Overload(
                    "quantity_is_greater_than", _PAIR, BOOL, lambda a, b: _compare(a, b) == 1, member=True
                ),
            ),
        ),
        Function(
            "isLessThan",
            (Overload("quantity_is_less_than", _PAIR, BOOL, lambda a, b: _compare(a, b) == -1, member=True),),
        ),
        Function("compareTo", (Overload("quantity_compare_to", _PAIR, INT, _compare, member=True),)),
        Function(
            "asApproximateFloat",
            (Overload("quantity_get_float", (_Q,), DOUBLE, lambda q: q.quantity.approximate(), member=True),),
        ),
        Function("asInteger", (Overload("quantity_get_int", (_Q,), INT, _as_integer, member=True),)),
        Function(
            "isInteger",
            (
                Overload(
                    "quantity_is_integer", (_Q,), BOOL, lambda q: q.quantity.as_int() is not None, member=True
                ),
            ),
        ),
        Function(
            "add",
            (
                Overload("quantity_add", _PAIR, _Q, _add, member=True),
                Overload("quantity_add_int", (_Q, INT), _Q, _add_int, member=True),
            ),
        ),
        Function(
            "sub",
            (
                Overload("quantity_sub", _PAIR, _Q, _sub, member=True),
                Overload("quantity_sub_int", (_Q, INT), _Q, _sub_int, member=True),
            ),
        ),
    ),
)
