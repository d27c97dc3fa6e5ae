"""Status of works, computed without a cluster."""

from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest

from fairway.api.work import (
    ConditionRule,
    DeleteOption,
    FeedbackRule,
    FieldValue,
    JsonPath,
    ManifestCondition,
    ManifestConfig,
    ManifestResourceMeta,
    ManifestResourceStatus,
    ManifestWork,
    ManifestWorkStatus,
    ResourceIdentifier,
    SelectivelyOrphans,
    UpdateStrategy,
)
from fairway.klusterlet.works import RULES_CLUSTER, RULES_HUB, hub_hash, repair_backoff
from fairway.klusterlet.works.condition_rules import conditions
from fairway.klusterlet.works.feedback import feedback
from fairway.klusterlet.works.manifest import config_of, is_owned
from fairway.klusterlet.works.objects import ObjectId
from fairway.klusterlet.works.repair_backoff import RepairBackoff
from fairway.klusterlet.works.status import Outcome, status_of
from kubewire.api.meta import Condition, ObjectMeta
from kubewire.client import Connection

NOW = datetime(2031, 5, 5, 12, tzinfo=UTC)
EARLIER = datetime(2031, 5, 5, 11, tzinfo=UTC)
META = ManifestResourceMeta(
    ordinal=0, version="v1", kind="ConfigMap", resource="configmaps", name="a", namespace="n"
)


def pod(**status: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": status}


def paths(**named: str) -> FeedbackRule:
    return FeedbackRule(
        type="JSONPaths", jsonPaths=tuple(JsonPath(name=name, path=path) for name, path in named.items())
    )


def test_feedback_values_of_all_types() -> None:
    live = pod(n=3, t="x", yes=True, many=[1, {"a": 2}], nothing=None, half=0.5)
    rule = paths(
        n=".status.n", t=".status.t", yes=".status.yes", many=".status.many", nothing=".status.nothing"
    )
    values, condition = feedback(live, [rule])
    assert values is not None
    assert {value.name: value.fieldValue for value in values.values} == {
        "n": FieldValue(type="Integer", integer=3),
        "t": FieldValue(type="String", string="x"),
        "yes": FieldValue(type="Boolean", boolean=True),
        "many": FieldValue(type="JsonRaw", jsonRaw='[1,{"a":2}]'),
    }
    assert (condition.status, condition.reason) == ("True", "StatusFeedbackSynced")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (paths(half=".status.half"), "the value of half is neither"),
        (paths(long=".status.long"), "the value of long has 2002 characters of JSON, more than 1024"),
        (paths(bad=".status["), "'.status[' is not a JSONPath"),
        (FeedbackRule(type="WellKnownStatus"), "cannot find the wellknown statuses for Odd (e/v1)"),
        (
            FeedbackRule(type="JSONPaths", jsonPaths=(JsonPath(name="v", path=".status.n", version="v2"),)),
            "version set in the path v is not matched: the object is of e/v1",
        ),
    ],
)
def test_unsupported_feedback_value_does_not_hide_others(rule: FeedbackRule, message: str) -> None:
    live = {**pod(half=0.5, long=["x" * 1998], n=1), "apiVersion": "e/v1", "kind": "Odd"}
    values, condition = feedback(live, [rule, paths(n=".status.n")])
    assert values is not None
    assert [value.name for value in values.values] == ["n"]
    assert (condition.status, condition.reason) == ("False", "StatusFeedbackSyncFailed")
    assert f"Sync status feedback failed with error {message}" in condition.message


def test_well_known_feedback_of_kinds() -> None:
    known = [FeedbackRule(type="WellKnownStatus")]
    values, _ = feedback(pod(phase="Running", conditions=[{"type": "Ready", "status": "True"}]), known)
    assert values is not None
    assert [value.name for value in values.values] == ["PodReady", "PodPhase"]
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "status": {"numberReady": 2}}
    values, condition = feedback(daemons, known)
    assert values is not None
    assert [(value.name, value.fieldValue.integer) for value in values.values] == [("NumberReady", 2)]
    assert condition.status == "True"


@pytest.mark.parametrize(
    ("live", "status", "message"),
    [
        (pod(phase="Failed"), "True", "Pod is in phase Failed"),
        (pod(phase="Running"), "False", "Pod is in phase Running"),
        (pod(), "False", ""),
        ({"apiVersion": "batch/v1", "kind": "Job"}, "False", "Job is not finished"),
        (
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "status": {"conditions": [{"type": "Failed", "status": "True"}]},
            },
            "True",
            "Job is finished",
        ),
    ],
)
def test_completion_of_jobs_and_pods(live: dict[str, Any], status: str, message: str) -> None:
    rule = ConditionRule(condition="Complete", type="WellKnownConditions")
    (condition,) = conditions(live, [rule], generation=7)
    assert (condition.status, condition.message, condition.observedGeneration) == (status, message, 7)
    assert not list(conditions({"apiVersion": "v1", "kind": "ConfigMap"}, [rule], generation=7))


@pytest.mark.parametrize(
    ("expression", "status", "reason"),
    [
        ("hasConditions(object.status)", "False", "ConditionRuleEvaluated"),
        ("!hasConditions({}) && !hasConditions('x')", "True", "ConditionRuleEvaluated"),
        ("object.status.", "False", "ConditionRuleExpressionError"),
        ("1 + 1", "False", "ConditionRuleExpressionError"),
        ("nobody.knows", "False", "ConditionRuleExpressionError"),
    ],
)
def test_condition_rule_expressions(expression: str, status: str, reason: str) -> None:
    rule = ConditionRule(condition="X", type="CEL", celExpressions=("true", expression))
    (condition,) = conditions(pod(), [rule], generation=1)
    assert (condition.status, condition.reason) == (status, reason)


def test_condition_rule_of_unknown_type() -> None:
    (condition,) = conditions(pod(), [ConditionRule(condition="X", type="Jq")], generation=1)
    assert (condition.status, condition.reason) == ("Unknown", "ConditionRuleInvalid")


def test_foreign_conditions_and_transition_times_stay() -> None:
    theirs = Condition(type="Theirs", status="True", reason="R", lastTransitionTime=EARLIER)
    applied = Condition(
        type="Applied", status="True", reason="AppliedManifestComplete", lastTransitionTime=EARLIER
    )
    before = ManifestCondition(resourceMeta=META, conditions=(theirs, applied))
    work = ManifestWork(
        metadata=ObjectMeta(name="w", generation=3),
        status=ManifestWorkStatus(
            conditions=(theirs,), resourceStatus=ManifestResourceStatus(manifests=(before,))
        ),
    )
    moved = ManifestResourceMeta(
        ordinal=1, version="v1", kind="ConfigMap", resource="configmaps", name="a", namespace="n"
    )
    lost = ManifestResourceMeta(ordinal=0, kind="Odd")
    status = status_of(work, [Outcome(meta=lost), Outcome(meta=moved, live={"metadata": {}})], now=NOW)
    assert status.conditions[0] == theirs
    again = status.resourceStatus.manifests[1]
    assert again.resourceMeta == moved
    assert {condition.type: condition.lastTransitionTime for condition in again.conditions} == {
        "Theirs": EARLIER,
        "Applied": EARLIER,
        "Available": NOW,
        "StatusFeedbackSynced": NOW,
    }
    available = status.conditions[2]
    assert (available.status, available.reason) == ("Unknown", "ResourcesStatusUnknown")
    assert available.message == "1 of 2 resources have unknown status"


def test_progressing_is_true_while_any_manifest_progresses() -> None:
    rules = (ConditionRule(condition="Progressing", type="CEL", celExpressions=("object.going",)),)
    config = ManifestConfig(conditionRules=rules)
    outcomes = [
        Outcome(
            meta=ManifestResourceMeta(ordinal=ordinal, name=str(ordinal)),
            config=config,
            live={"going": going},
        )
        for ordinal, going in enumerate((False, True))
    ]
    condition = status_of(ManifestWork(), outcomes, now=NOW).conditions[-1]
    assert (condition.type, condition.status) == ("Progressing", "True")
    assert condition.message == "Aggregated from 2 manifest conditions"


def test_matching_manifest_configs_are_merged() -> None:
    rules = (FeedbackRule(type="WellKnownStatus"),)
    configs = (
        ManifestConfig(resourceIdentifier=ResourceIdentifier(resource="configmaps", name="b", namespace="n")),
        ManifestConfig(
            resourceIdentifier=ResourceIdentifier(resource="configmaps", name="*", namespace="n"),
            updateStrategy=UpdateStrategy(type="CreateOnly"),
        ),
        ManifestConfig(
            resourceIdentifier=ResourceIdentifier(resource="configmaps", name="a*", namespace="n"),
            updateStrategy=UpdateStrategy(type="ReadOnly"),
            feedbackRules=rules,
        ),
    )
    merged = config_of(META, configs)
    assert merged.updateStrategy == UpdateStrategy(type="CreateOnly")
    assert merged.feedbackRules == rules


def test_ownership_by_delete_option() -> None:
    one = ObjectId(group="", resource="configmaps", namespace="n", name="a")
    rule = ResourceIdentifier(resource="configmaps", namespace="n", name="a")
    selective = DeleteOption(
        propagationPolicy="SelectivelyOrphan", selectivelyOrphans=SelectivelyOrphans(orphaningRules=(rule,))
    )
    assert is_owned(one, None)
    assert is_owned(one, DeleteOption())
    assert not is_owned(one, DeleteOption(propagationPolicy="Orphan"))
    assert not is_owned(one, selective)
    assert is_owned(one, DeleteOption(propagationPolicy="SelectivelyOrphan"))
    assert is_owned(ObjectId(group="", resource="secrets", namespace="n", name="a"), selective)


def test_repeated_repairs_wait_longer_until_a_quiet_period() -> None:
    repairs = RepairBackoff()
    delays = []
    for _ in range(repair_backoff.AT_ONCE + 12):
        delays.append(repairs.delay(now=1.0))
        repairs.record_repair(now=1.0)
    assert delays[: repair_backoff.AT_ONCE] == [0.0] * repair_backoff.AT_ONCE
    assert delays[repair_backoff.AT_ONCE : repair_backoff.AT_ONCE + 3] == [1.0, 2.0, 4.0]
    assert delays[-1] == 300.0
    assert repairs.delay(now=repair_backoff.QUIET_SECONDS) == 300.0
    assert repairs.delay(now=1.0 + repair_backoff.QUIET_SECONDS) == 0.0


def test_hub_hash_is_hash_of_address() -> None:
    """As the kubeconfig has it: OCM's agent does not strip a slash either."""
    hub = Connection(server="https://hub")
    assert hub_hash(hub) == "74dba50e7b6143c748e753dcf993f6eff30e2ea797a94bd5785cdc53fcc38573"
    assert hub_hash(Connection(server="https://hub:6443")) != hub_hash(hub)
    assert hub_hash(replace(hub, host="https://hub/")) == sha256(b"https://hub/").hexdigest()


def test_rbac_rules_cover_used_resources() -> None:
    assert {verb for rule in RULES_HUB for verb in rule.verbs} == {"get", "list", "watch", "patch"}
    assert any("subjectaccessreviews" in rule.resources for rule in RULES_CLUSTER)
