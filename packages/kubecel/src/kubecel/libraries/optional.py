"""Optional values: ``optional.of(x)``, ``a.?b``, ``x.orValue(y)``."""

from __future__ import annotations

from kubecel.containers import List, length
from kubecel.declarations import Function, Library, Metered, Overload
from kubecel.errors import Failure
from kubecel.frame import Meter, walk
from kubecel.scalars import Duration, Timestamp
from kubecel.types import BOOL, DYN, INT, STRING, list_of, map_of, optional_of, param
from kubecel.values import NONE, OPTIONAL, Optional, size_of, type_of_value

_K = param("K")
_V = param("V")
_OPTIONAL_V = optional_of(_V)
_LIST_V = list_of(_V)
_MAP_KV = map_of(_K, _V)
_YEAR_ONE = -62_135_596_800


def value_of(optional: Optional) -> object:
    if not optional.present:
        raise Failure("optional.none() dereference")
    return optional.value


def of_non_zero(value: object) -> object:
    return NONE if _zero(value) else Optional(value)


def _zero(value: object) -> bool:
    if value is None or value is False or (isinstance(value, (int, float)) and value == 0):
        return True
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Timestamp):
        return value.seconds == _YEAR_ONE and value.nanos == 0
    if isinstance(value, Optional):
        return False
    return size_of(value) == 0


def _first(values: List) -> object:
    return Optional(values[0]) if length(values) else NONE


def _last(values: List) -> object:
    return Optional(values[length(values) - 1]) if length(values) else NONE


def _unwrapped(meter: Meter, values: List) -> object:
    out = []
    for value in walk(meter, values, length(values)):
        if not isinstance(value, Optional):
            raise Failure(f"value of type {type_of_value(value).name} is not optional")
        if value.present:
            out.append(value.value)
    return out


_unwrap = Metered(_unwrapped)

OPTIONALS = Library(
    "optional",
    (
        Function("optional.of", (Overload("optional_of", (_V,), _OPTIONAL_V, Optional),)),
        Function(
            "optional.ofNonZeroValue", (Overload("optional_ofNonZeroValue", (_V,), _OPTIONAL_V, of_non_zero),)
        ),
        Function("optional.none", (Overload("optional_none", (), _OPTIONAL_V, lambda: NONE),)),
        Function("value", (Overload("optional_value", (_OPTIONAL_V,), _V, value_of, member=True),)),
        Function(
            "hasValue",
            (
                Overload(
                    "optional_hasValue", (_OPTIONAL_V,), BOOL, lambda optional: optional.present, member=True
                ),
            ),
        ),
        Function(
            "or", (Overload("optional_or_optional", (_OPTIONAL_V, _OPTIONAL_V), _OPTIONAL_V, member=True),)
        ),
        Function("orValue", (Overload("optional_orValue_value", (_OPTIONAL_V, _V), _V, member=True),)),
        Function("_?._", (Overload("select_optional_field", (DYN, STRING), _OPTIONAL_V),)),
        Function(
            "_[?_]",
            (
                Overload("list_optindex_optional_int", (_LIST_V, INT), _OPTIONAL_V),
                Overload("optional_list_optindex_optional_int", (optional_of(_LIST_V), INT), _OPTIONAL_V),
                Overload("map_optindex_optional_value", (_MAP_KV, _K), _OPTIONAL_V),
                Overload("optional_map_optindex_optional_value", (optional_of(_MAP_KV), _K), _OPTIONAL_V),
            ),
        ),
        Function(
            "_[_]",
            (
                Overload("optional_list_index_int", (optional_of(_LIST_V), INT), _OPTIONAL_V),
                Overload("optional_map_index_value", (optional_of(_MAP_KV), _K), _OPTIONAL_V),
            ),
        ),
        Function("last", (Overload("list_last", (_LIST_V,), _OPTIONAL_V, _last, member=True),)),
        Function("first", (Overload("list_first", (_LIST_V,), _OPTIONAL_V, _first, member=True),)),
        Function(
            "optional.unwrap", (Overload("optional_unwrap", (list_of(_OPTIONAL_V),), _LIST_V, _unwrap),)
        ),
        Function(
            "unwrapOpt",
            (Overload("optional_unwrapOpt", (list_of(_OPTIONAL_V),), _LIST_V, _unwrap, member=True),),
        ),
    ),
    (OPTIONAL,),
)
