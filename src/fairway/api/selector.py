"""Label selectors."""

from typing import Annotated

from msgspec import Struct, field

from fairway.api.annotation import Field


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: Annotated[str, Field("The key the requirement is about.", required=True)] = field(
        default_factory=str
    )
    operator: Annotated[str, Field("In, NotIn, Exists or DoesNotExist.", required=True)] = field(
        default_factory=str
    )
    values: Annotated[
        tuple[str, ...],
        Field("At least one value for In and NotIn, none for the others.", list_type="atomic"),
    ] = ()


class LabelSelector(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    matchExpressions: Annotated[
        tuple[LabelSelectorRequirement, ...],
        Field("Requirements, all of which must be met.", list_type="atomic"),
    ] = ()
    matchLabels: Annotated[dict[str, str], Field("Keys with the exact value each must have.")] = field(
        default_factory=dict
    )
