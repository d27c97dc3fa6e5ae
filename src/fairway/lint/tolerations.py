"""Tolerations that are invalid, never match, or have an unexpected meaning."""

from collections.abc import Iterator, Sequence
from typing import Final

from fairway.api.cluster import EFFECTS, PREFER_NO_SELECT, TAINT_UNAVAILABLE, TAINT_UNREACHABLE
from fairway.api.placement import EQUAL, EXISTS, Placement, Toleration
from fairway.lint.finding import Finding, error, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import guess, nearest, quoted
from fairway.workloads.placement.plugins.taints import KEY_NEEDED, VALUE_UNWANTED, matches
from kubewire.api.selector import quote

WELL_KNOWN: Final = (TAINT_UNREACHABLE, TAINT_UNAVAILABLE)
"""Taints that the hub sets when a cluster fails, so they may be absent now."""

KEY_MISSING: Final = error("toleration-key-missing", "An empty key requires the operator Exists.")
EXISTS_WITH_VALUE: Final = error("toleration-exists-with-value", "The operator Exists takes no value.")
OPERATOR_UNKNOWN: Final = error("toleration-operator-unknown", "The operator is neither Equal nor Exists.")
EFFECT_UNKNOWN: Final = error("toleration-effect-unknown", "There is no such effect.")
KEY_UNKNOWN: Final = warning("toleration-key-unknown", "No cluster has a taint with this key.")
VALUE_UNKNOWN: Final = warning("toleration-value-unknown", "No taint with this key has the value.")
EFFECT_ABSENT: Final = warning(
    "toleration-effect-absent", "Clusters have the taint with another effect only."
)
SHADOWED: Final = warning("toleration-shadowed", "An earlier toleration already covers this one.")
TIME_MOOT: Final = warning(
    "toleration-seconds-moot", "The time limit has no effect: a later toleration has none or a longer one."
)
TIME_IGNORED: Final = warning("toleration-seconds-ignored", "A time limit on PreferNoSelect has no effect.")
TIME_PAST: Final = warning(
    "toleration-seconds-not-positive", "The time limit is 0 or less, so it never applies."
)
HIDES_OUTAGES: Final = info(
    "toleration-hides-outages", "Clusters that became unreachable stay selected forever."
)

RULES: Final = (
    KEY_MISSING,
    EXISTS_WITH_VALUE,
    OPERATOR_UNKNOWN,
    EFFECT_UNKNOWN,
    KEY_UNKNOWN,
    VALUE_UNKNOWN,
    EFFECT_ABSENT,
    SHADOWED,
    TIME_MOOT,
    TIME_IGNORED,
    TIME_PAST,
    HIDES_OUTAGES,
)

_OPERATORS: Final = ("", EQUAL, EXISTS)


def check(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        tolerations = placement.spec.tolerations
        for at, toleration in enumerate(tolerations):
            wrong = list(_wrong(placement, toleration, at))
            yield from wrong
            if wrong:
                continue
            if scene.populated:
                yield from _against_fleet(scene, placement, toleration, at)
            yield from _times(placement, tolerations, at)
            yield from _outages(placement, toleration, at)


def _wrong(placement: Placement, toleration: Toleration, at: int) -> Iterator[Finding]:
    path = f"spec.tolerations[{at}]"
    operator = toleration.operator
    if operator not in _OPERATORS:
        near = nearest(operator, (EQUAL, EXISTS))
        yield OPERATOR_UNKNOWN.at(
            placement,
            f"{path}.operator",
            f"{quote(operator)} is not an operator, so the toleration never matches",
            f"write {near}" if near else "write Equal or Exists",
        )
    elif not toleration.key and operator != EXISTS:
        yield KEY_MISSING.at(
            placement,
            path,
            f"the placement is rejected: {KEY_NEEDED}",
            "write a key, or operator: Exists to tolerate every taint",
        )
    elif operator == EXISTS and toleration.value:
        yield EXISTS_WITH_VALUE.at(
            placement,
            f"{path}.value",
            f"the placement is rejected: {VALUE_UNWANTED}",
            "remove the value, or write operator: Equal",
        )
    if toleration.effect and toleration.effect not in EFFECTS:
        yield EFFECT_UNKNOWN.at(
            placement,
            f"{path}.effect",
            f"no taint has the effect {quote(toleration.effect)}, so the toleration never matches",
            guess(
                toleration.effect, EFFECTS, otherwise=f"write one of {', '.join(EFFECTS)}, or none for all"
            ),
        )


def _against_fleet(scene: Scene, placement: Placement, toleration: Toleration, at: int) -> Iterator[Finding]:
    path = f"spec.tolerations[{at}]"
    key = toleration.key
    if not key or key in WELL_KNOWN:
        return
    taints = [taint for taint in scene.taints if taint[0] == key]
    if not taints:
        yield KEY_UNKNOWN.at(
            placement,
            f"{path}.key",
            f"no cluster has a taint {quote(key)}",
            guess(
                key,
                {taint[0] for taint in scene.taints} | set(WELL_KNOWN),
                otherwise="remove the toleration unless the taint is still to come",
            ),
        )
    elif toleration.operator != EXISTS and all(taint[1] != toleration.value for taint in taints):
        values = sorted({taint[1] for taint in taints})
        yield VALUE_UNKNOWN.at(
            placement,
            f"{path}.value",
            f"no taint {quote(key)} has the value {quote(toleration.value)}; there is {quoted(values)}",
            guess(toleration.value, values, otherwise="write operator: Exists to tolerate any value"),
        )
    elif not any(matches(toleration, *taint) for taint in taints):
        effects = ", ".join(sorted({taint[2] for taint in taints}))
        yield EFFECT_ABSENT.at(
            placement,
            f"{path}.effect",
            f"taint {quote(key)} has the effect {effects} on this fleet, not {toleration.effect}",
            "correct the effect, or leave it out to tolerate all",
        )


def _times(placement: Placement, tolerations: Sequence[Toleration], at: int) -> Iterator[Finding]:
    path = f"spec.tolerations[{at}]"
    toleration = tolerations[at]
    seconds = toleration.tolerationSeconds
    if seconds is not None and toleration.effect == PREFER_NO_SELECT:
        yield TIME_IGNORED.at(
            placement,
            f"{path}.tolerationSeconds",
            "a PreferNoSelect taint keeps no cluster out, so there is nothing that could expire",
            "remove tolerationSeconds",
        )
        return
    if seconds is not None and seconds <= 0:
        yield TIME_PAST.at(
            placement,
            f"{path}.tolerationSeconds",
            f"tolerated for {seconds} s after the taint was added, which is never",
            "write a positive number, or leave it out to tolerate the taint forever",
        )
        return
    for before in range(at):
        if _covers(tolerations[before], toleration) and _outlasts(tolerations[before], toleration):
            yield SHADOWED.at(
                placement,
                path,
                f"spec.tolerations[{before}] already tolerates every taint that this one does, as long",
                "remove this one",
            )
            return
    for after in range(at + 1, len(tolerations)):
        later = tolerations[after]
        if _covers(later, toleration) and _outlasts(later, toleration) and not _outlasts(toleration, later):
            yield TIME_MOOT.at(
                placement,
                f"{path}.tolerationSeconds",
                f"nothing ends after {seconds} s: spec.tolerations[{after}] tolerates the same taints longer",
                "remove or narrow the broader toleration",
            )
            return


def _covers(broad: Toleration, narrow: Toleration) -> bool:
    """Return whether every taint that the one tolerates is tolerated by the other, ignoring times."""
    if broad.effect and broad.effect != narrow.effect:
        return False
    if broad.key and broad.key != narrow.key:
        return False
    if broad.operator == EXISTS:
        return True
    return broad.operator in _OPERATORS and narrow.operator != EXISTS and broad.value == narrow.value


def _outlasts(toleration: Toleration, other: Toleration) -> bool:
    if toleration.tolerationSeconds is None:
        return True
    return other.tolerationSeconds is not None and toleration.tolerationSeconds >= other.tolerationSeconds


def _outages(placement: Placement, toleration: Toleration, at: int) -> Iterator[Finding]:
    hidden = [key for key in WELL_KNOWN if matches(toleration, key, "", "NoSelect")]
    if hidden and toleration.tolerationSeconds is None:
        yield HIDES_OUTAGES.at(
            placement,
            f"spec.tolerations[{at}]",
            f"clusters with the taint {' or '.join(hidden)} stay selected for as long as they are down",
            "set tolerationSeconds if work should move away after a while",
        )
