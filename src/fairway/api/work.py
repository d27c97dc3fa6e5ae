"""ManifestWork: objects for a managed cluster; AppliedManifestWork: their record on that cluster."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.annotation import Field, Int32, Int64, Manifest, Time, no_items
from fairway.api.meta import Condition, Conditions, ObjectMeta

WORK_GROUP: Final = "work.open-cluster-management.io"

FOREGROUND: Final = "Foreground"
ORPHAN: Final = "Orphan"
SELECTIVELY_ORPHAN: Final = "SelectivelyOrphan"

UPDATE: Final = "Update"
CREATE_ONLY: Final = "CreateOnly"
SERVER_SIDE_APPLY: Final = "ServerSideApply"
READ_ONLY: Final = "ReadOnly"

ON_SPOKE_PRESENT: Final = "OnSpokePresent"
ON_SPOKE_CHANGE: Final = "OnSpokeChange"

WELL_KNOWN_STATUS: Final = "WellKnownStatus"
JSON_PATHS: Final = "JSONPaths"

WELL_KNOWN_CONDITIONS: Final = "WellKnownConditions"
CEL: Final = "CEL"

SERVICE_ACCOUNT: Final = "ServiceAccount"

MANIFEST_WORK_FINALIZER: Final = "cluster.open-cluster-management.io/manifest-work-cleanup"
APPLIED_MANIFEST_WORK_FINALIZER: Final = "cluster.open-cluster-management.io/applied-manifest-work-cleanup"

WORK_APPLIED: Final = "Applied"
WORK_AVAILABLE: Final = "Available"
WORK_COMPLETE: Final = "Complete"
WORK_PROGRESSING: Final = "Progressing"

_ACCOUNT_NAME: Final = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$"
_GROUP: Final = "API group; empty for the core one."
_NAMESPACE: Final = "Namespace; empty for an object that lives in none."


class ResourceIdentifier(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Which one of the work's manifests is meant. ``OrphaningRule`` has the same fields."""

    group: Annotated[str, Field(_GROUP)] = ""
    resource: Annotated[str, Field("Plural name of the kind.", required=True)] = field(default_factory=str)
    namespace: Annotated[str, Field(_NAMESPACE)] = ""
    name: Annotated[str, Field("Name of the object.", required=True)] = field(default_factory=str)


class SelectivelyOrphans(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    orphaningRules: Annotated[
        tuple[ResourceIdentifier, ...], Field("Objects that stay when the work or their manifest goes.")
    ] = ()


class DeleteOption(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    propagationPolicy: Annotated[
        str,
        Field(
            "What becomes of the objects when the work is deleted.",
            default=FOREGROUND,
            enum=(FOREGROUND, ORPHAN, SELECTIVELY_ORPHAN),
        ),
    ] = ""
    selectivelyOrphans: Annotated[
        SelectivelyOrphans | None, Field("What stays, with the policy SelectivelyOrphan.")
    ] = None
    ttlSecondsAfterFinished: Annotated[
        Int64 | None,
        Field("Seconds after which a Complete work is deleted; never when absent."),
    ] = None


class JsonPath(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the reported value.", required=True)] = field(default_factory=str)
    version: Annotated[str, Field("API version the path is made for; any when empty.")] = ""
    path: Annotated[
        str, Field("Where below status the value is, in Kubernetes' JSONPath.", required=True)
    ] = field(default_factory=str)


class FeedbackRule(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Whether the usual values of the kind are reported, or those the paths lead to.",
            required=True,
            enum=(WELL_KNOWN_STATUS, JSON_PATHS),
        ),
    ] = field(default_factory=str)
    jsonPaths: Annotated[
        tuple[JsonPath, ...],
        Field("What is reported, with the type JSONPaths.", list_type="map", map_keys=("name",)),
    ] = ()


class IgnoreField(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    condition: Annotated[
        str,
        Field(
            "When the fields are left alone: once the object is there, or once someone changed them there.",
            required=True,
            default=ON_SPOKE_PRESENT,
            enum=(ON_SPOKE_PRESENT, ON_SPOKE_CHANGE),
        ),
    ] = field(default_factory=str)
    jsonPaths: Annotated[tuple[str, ...], Field("The fields, in Kubernetes' JSONPath.")] = ()
    jsonPointers: Annotated[tuple[str, ...], Field("The fields, as JSON pointers.")] = ()
    jqPathExpressions: Annotated[tuple[str, ...], Field("The fields, as paths of jq.")] = ()


class ServerSideApply(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    force: Annotated[bool, Field("Take over fields that belong to other managers.")] = False
    fieldManager: Annotated[
        str, Field("Who owns the applied fields.", default="work-agent", pattern="^work-agent")
    ] = ""
    ignoreFields: Annotated[
        tuple[IgnoreField, ...],
        Field("Fields that are not applied to an existing object.", list_type="map", map_keys=("condition",)),
    ] = ()


class UpdateStrategy(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "How an object that already exists is brought in line with its manifest.",
            required=True,
            default=UPDATE,
            enum=(UPDATE, CREATE_ONLY, SERVER_SIDE_APPLY, READ_ONLY),
        ),
    ] = field(default_factory=str)
    serverSideApply: Annotated[ServerSideApply | None, Field("Details of the strategy ServerSideApply.")] = (
        None
    )


class ConditionRule(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    condition: Annotated[str, Field("Type of the condition that is set.", required=True)] = field(
        default_factory=str
    )
    type: Annotated[
        str,
        Field(
            "Whether the kind's usual rules decide, or the expressions.",
            required=True,
            enum=(WELL_KNOWN_CONDITIONS, CEL),
        ),
    ] = field(default_factory=str)
    celExpressions: Annotated[tuple[str, ...], Field("All must hold, with the type CEL.")] = ()
    message: Annotated[str, Field("Message of the condition.")] = ""
    messageExpression: Annotated[
        str, Field("Makes the message, in CEL; sees object and result, and wins over message.")
    ] = ""


class ManifestConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    resourceIdentifier: Annotated[ResourceIdentifier, Field("The manifest this is about.", required=True)] = (
        field(default_factory=ResourceIdentifier)
    )
    feedbackRules: Annotated[tuple[FeedbackRule, ...], Field("Which parts of its status are reported.")] = ()
    feedbackScrapeType: Annotated[
        str, Field("How changes of the status are noticed.", default="Poll", enum=("Poll", "Watch"))
    ] = ""
    updateStrategy: Annotated[UpdateStrategy | None, Field("How it is updated; Update when absent.")] = None
    conditionRules: Annotated[
        tuple[
            Annotated[
                ConditionRule,
                Field(
                    validations=(
                        (
                            "self.type != 'CEL' || self.condition != \"\"",
                            "Condition is required for CEL rules",
                        ),
                    )
                ),
            ],
            ...,
        ],
        Field("Conditions that are set by rules.", list_type="map", map_keys=("condition",)),
    ] = ()


class ExecutorAccount(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[
        str,
        Field(
            "Namespace of the account.", required=True, min_length=1, max_length=253, pattern=_ACCOUNT_NAME
        ),
    ] = field(default_factory=str)
    name: Annotated[
        str,
        Field("Name of the account.", required=True, min_length=1, max_length=253, pattern=_ACCOUNT_NAME),
    ] = field(default_factory=str)


class ExecutorSubject(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[str, Field("Kind of the subject.", required=True, enum=(SERVICE_ACCOUNT,))] = field(
        default_factory=str
    )
    serviceAccount: Annotated[ExecutorAccount | None, Field("The account, with the type ServiceAccount.")] = (
        None
    )


class Executor(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    subject: Annotated[ExecutorSubject | None, Field("Whose rights on the managed cluster must suffice.")] = (
        None
    )


class Workload(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    manifests: Annotated[tuple[Manifest, ...], Field("The objects, as they are to be applied.")] = ()


class ManifestWorkSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    workload: Annotated[Workload, Field("What is wanted on the managed cluster.")] = Workload()
    deleteOption: Annotated[
        DeleteOption | None, Field("What becomes of the objects when the work is deleted.")
    ] = None
    manifestConfigs: Annotated[
        tuple[ManifestConfig, ...], Field("What is wanted beyond applying, by manifest.")
    ] = ()
    executor: Annotated[Executor | None, Field("In whose name the manifests are applied.")] = None


class ManifestResourceMeta(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    ordinal: Annotated[Int32, Field("Place of the manifest in the work, from 0.", required=True)] = field(
        default_factory=int
    )
    group: Annotated[str, Field(_GROUP)] = ""
    version: Annotated[str, Field("API version.")] = ""
    kind: Annotated[str, Field("Kind.")] = ""
    resource: Annotated[str, Field("Plural name of the kind.")] = ""
    name: Annotated[str, Field("Name of the object.")] = ""
    namespace: Annotated[str, Field(_NAMESPACE)] = ""


class FieldValue(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Which of the other fields holds the value.",
            required=True,
            enum=("Integer", "String", "Boolean", "JsonRaw"),
        ),
    ] = field(default_factory=str)
    integer: Annotated[Int64 | None, Field("A whole number.")] = None
    string: Annotated[str | None, Field("A text.")] = None
    boolean: Annotated[bool | None, Field("True or false.")] = None
    jsonRaw: Annotated[str | None, Field("A list or an object, in JSON.", max_length=1024)] = None


class FeedbackValue(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of the value.", required=True)] = field(default_factory=str)
    fieldValue: Annotated[FieldValue, Field("The value.", required=True)] = field(default_factory=FieldValue)


class StatusFeedback(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    values: Annotated[
        tuple[FeedbackValue, ...], Field("The values, by name.", list_type="map", map_keys=("name",))
    ] = ()


class ManifestCondition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    resourceMeta: Annotated[ManifestResourceMeta, Field("Which manifest.", required=True)] = field(
        default_factory=ManifestResourceMeta
    )
    statusFeedback: Annotated[StatusFeedback | None, Field("What was asked for of its status.")] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field("What is known about the object.", required=True, list_type="map", map_keys=("type",)),
    ] = field(default_factory=no_items)


class ManifestResourceStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    manifests: Annotated[tuple[ManifestCondition, ...], Field("In the order of the work.")] = ()


class ManifestWorkStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    conditions: Conditions = ()
    resourceStatus: Annotated[ManifestResourceStatus, Field("Observed state of each manifest.")] = (
        ManifestResourceStatus()
    )


class ManifestWork(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Its namespace is the name of the cluster it is for."""

    apiVersion: str = "work.open-cluster-management.io/v1"
    kind: str = "ManifestWork"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ManifestWorkSpec, Field("What is wanted.")] = ManifestWorkSpec()
    status: Annotated[ManifestWorkStatus, Field("What came of it.")] = ManifestWorkStatus()


class AppliedResource(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    version: Annotated[str, Field("API version.", required=True)] = field(default_factory=str)
    group: Annotated[str, Field(_GROUP)] = ""
    resource: Annotated[str, Field("Plural name of the kind.", required=True)] = field(default_factory=str)
    namespace: Annotated[str, Field(_NAMESPACE)] = ""
    name: Annotated[str, Field("Name of the object.", required=True)] = field(default_factory=str)
    uid: Annotated[str, Field("UID of the object that was applied.")] = ""


class AppliedManifestWorkSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    hubHash: Annotated[str, Field("Hash of the hub's address.", required=True)] = field(default_factory=str)
    agentID: Annotated[str, Field("Which work agent is in charge.")] = ""
    manifestWorkName: Annotated[str, Field("Name of the ManifestWork on the hub.", required=True)] = field(
        default_factory=str
    )


class AppliedManifestWorkStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    appliedResources: Annotated[
        tuple[AppliedResource, ...], Field("The objects that were applied for the work.")
    ] = ()
    evictionStartTime: Annotated[Time | None, Field("Since when the work has been missing on the hub.")] = (
        None
    )


class AppliedManifestWork(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """On the managed cluster; named after the hub and the ManifestWork, it owns what was applied for it."""

    apiVersion: str = "work.open-cluster-management.io/v1"
    kind: str = "AppliedManifestWork"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AppliedManifestWorkSpec, Field("Which work it stands for.")] = AppliedManifestWorkSpec()
    status: Annotated[AppliedManifestWorkStatus, Field("What was applied.")] = AppliedManifestWorkStatus()
