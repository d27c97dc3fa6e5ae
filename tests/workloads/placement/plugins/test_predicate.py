import pytest
from msgspec import structs

from fairway.api.cluster import ClusterClaim
from fairway.api.placement import ClusterPredicate, PlacementSpec
from fairway.engine.status import Code
from fairway.testing.builders import builtin, cluster, policy, predicate, requirement, score, selector
from fairway.workloads.placement.plugins.predicate import NAME
from workloads.placement.plugins.verdicts import look, refusal

PROD = predicate(labels=selector(labels={"env": "prod"}))
EU = predicate(claims=[requirement("region", "In", "eu")])

FLEET = (
    cluster("both", labels={"env": "prod"}, claims={"region": "eu"}, version="v1.31.0"),
    cluster("claim", labels={"env": "dev"}, claims={"region": "eu"}, version="v1.30.0"),
    cluster("label", labels={"env": "prod"}, claims={"region": "us"}, version="v1.29.0"),
    cluster("neither", version="v1.28.0"),
    score("both", {"free": 90}),
    score("claim", {"free": 80}),
    score("label", {"free": 10}),
)


def labels(key: str, operator: str, *values: str) -> ClusterPredicate:
    return predicate(labels=selector(requirement(key, operator, *values)))


def claims(key: str, operator: str, *values: str) -> ClusterPredicate:
    return predicate(claims=[requirement(key, operator, *values)])


@pytest.mark.parametrize(
    ("predicates", "expected"),
    [
        pytest.param((), "both claim label neither", id="no predicate passes every cluster"),
        pytest.param(
            (predicate(),), "both claim label neither", id="an empty predicate passes every cluster"
        ),
        pytest.param((PROD,), "both label", id="a label must have the value"),
        pytest.param((EU,), "both claim", id="a claim must have the value"),
        pytest.param((PROD, EU), "both claim label", id="any one predicate is enough"),
        pytest.param(
            (predicate(labels=selector(labels={"env": "prod"}), claims=[requirement("region", "In", "eu")]),),
            "both",
            id="all parts of a predicate must match",
        ),
        pytest.param((labels("env", "NotIn", "prod"),), "claim neither", id="NotIn matches a missing label"),
        pytest.param((labels("env", "DoesNotExist"),), "neither", id="DoesNotExist matches a missing label"),
        pytest.param((labels("env", "Exists"),), "both claim label", id="Exists wants any value"),
        pytest.param((claims("region", "NotIn", "eu"),), "label neither", id="NotIn matches a missing claim"),
        pytest.param(
            (claims("region", "DoesNotExist"),), "neither", id="DoesNotExist matches a missing claim"
        ),
        pytest.param((claims("region", "Exists"),), "both claim label", id="Exists wants any claim"),
        pytest.param((labels("env", "In", "dev", "qa"),), "claim", id="In takes any of the values"),
        pytest.param((labels("nowhere", "In", "x"),), "", id="a missing key matches no cluster"),
        pytest.param(
            (predicate(cel=['managedCluster.metadata.labels["env"] == "prod"']),),
            "both label",
            id="CEL over a label, an error being no match",
        ),
        pytest.param(
            (predicate(cel=['managedCluster.status.clusterClaims.exists(c, c.value == "eu")']),),
            "both claim",
            id="CEL over claims",
        ),
        pytest.param(
            (predicate(cel=['managedCluster.scores("default").exists(s, s.value > 80)']),),
            "both",
            id="CEL over scores",
        ),
        pytest.param(
            (
                predicate(
                    cel=[
                        'managedCluster.status.version.kubernetes.startsWith("v1.3")',
                        'managedCluster.metadata.labels["env"] == "dev"',
                    ]
                ),
            ),
            "claim",
            id="two expressions must both be true",
        ),
        pytest.param(
            (
                predicate(
                    labels=selector(labels={"env": "prod"}),
                    cel=['managedCluster.status.version.kubernetes == "v1.29.0"'],
                ),
            ),
            "label",
            id="CEL and labels must both match",
        ),
        pytest.param(
            (predicate(cel=["1 + 1"]),), "", id="an expression that is not a boolean matches no cluster"
        ),
    ],
)
def test_predicates_select_matching_clusters(predicates: tuple[ClusterPredicate, ...], expected: str) -> None:
    verdict = look(*FLEET, spec=PlacementSpec(predicates=predicates))
    assert verdict.status.code is Code.SUCCESS
    assert sorted(verdict.outcome.selected) == expected.split()


def test_last_of_duplicate_claims_is_matched() -> None:
    twice = cluster("twice")
    claims_given = (ClusterClaim(name="region", value="eu"), ClusterClaim(name="region", value="us"))
    twice = structs.replace(twice, status=structs.replace(twice.status, clusterClaims=claims_given))
    assert look(twice, spec=PlacementSpec(predicates=(EU,))).outcome.selected == []
    us = predicate(claims=[requirement("region", "In", "us")])
    assert look(twice, spec=PlacementSpec(predicates=(us,))).outcome.selected == ["twice"]


MISTAKES = [
    pytest.param(
        labels("env", "Like", "p"), '"Like" is not a valid label selector operator', id="an unknown operator"
    ),
    pytest.param(
        labels("env", "In"),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        id="In without values",
    ),
    pytest.param(
        claims("region", "In", "a b"),
        'values[0][region]: Invalid value: "a b": a valid label must be an empty string',
        id="a claim value that would be no label value",
    ),
    pytest.param(
        predicate(cel=["managedCluster.metadata.name +"]),
        "compilation failed: ERROR: <input>:1:31:",
        id="an expression that does not compile",
    ),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_invalid_predicate_makes_placement_misconfigured(mistake: ClusterPredicate, message: str) -> None:
    verdict = look(*FLEET, spec=PlacementSpec(predicates=(PROD, mistake)))
    assert verdict.status.code is Code.MISCONFIGURED
    assert verdict.status.plugin == NAME
    assert verdict.status.message.startswith(message)
    assert verdict.outcome.selected == []
    assert verdict.outcome.details.stages == ()


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_invalid_predicate_is_not_reported_without_clusters(mistake: ClusterPredicate, message: str) -> None:
    verdict = look(spec=PlacementSpec(predicates=(mistake,)))
    assert verdict.status.code is Code.SUCCESS


def test_first_invalid_selector_is_reported() -> None:
    wrong = predicate(
        labels=selector(requirement("env", "Labels")),
        claims=[requirement("region", "Claims")],
        cel=["not cel"],
    )
    assert look(*FLEET, spec=PlacementSpec(predicates=(wrong,))).status.message == (
        '"Labels" is not a valid label selector operator'
    )
    wrong = predicate(claims=[requirement("region", "Claims")], cel=["not cel"])
    assert look(*FLEET, spec=PlacementSpec(predicates=(wrong,))).status.message == (
        '"Claims" is not a valid label selector operator'
    )


def test_invalid_predicate_is_reported_before_invalid_prioritizer() -> None:
    spec = PlacementSpec(
        predicates=(labels("env", "Like"),), prioritizerPolicy=policy(builtin("Balance"), mode="Sometimes")
    )
    assert look(*FLEET, spec=spec).status.plugin == NAME
    assert look(spec=spec).status.message == "incorrect prioritizer policy mode: Sometimes"


@pytest.mark.parametrize(
    ("predicates", "words"),
    [
        pytest.param((PROD,), 'label "env" is missing, needs "prod"', id="a missing label"),
        pytest.param((EU,), 'claim "region" is missing, needs "eu"', id="a missing claim"),
        pytest.param(
            (labels("env", "Exists"),), 'label "env" is missing', id="a label that must be there at all"
        ),
        pytest.param(
            (labels("env", "In", "qa", "dev"),),
            'label "env" is missing, needs one of "dev", "qa"',
            id="several values, sorted",
        ),
        pytest.param(
            (predicate(cel=['managedCluster.status.version.kubernetes == "v9"']),),
            "CEL expression 'managedCluster.status.version.kubernetes == \"v9\"' is false",
            id="an expression that is false",
        ),
        pytest.param(
            (predicate(cel=["1 + 1"]),),
            "CEL expression '1 + 1' is 2, which is not true or false",
            id="an expression that is no boolean",
        ),
        pytest.param(
            (predicate(cel=["1 / 0 == 1"]),),
            "CEL expression '1 / 0 == 1' fails: division by zero",
            id="an expression that fails",
        ),
        pytest.param(
            (PROD, EU),
            'predicate 1: label "env" is missing, needs "prod"; '
            'predicate 2: claim "region" is missing, needs "eu"',
            id="several predicates, each with its own words",
        ),
    ],
)
def test_message_of_predicate_rejection(predicates: tuple[ClusterPredicate, ...], words: str) -> None:
    verdict = look(*FLEET, spec=PlacementSpec(predicates=predicates))
    assert refusal(verdict, "neither") == (NAME, words)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        pytest.param(labels("env", "NotIn", "dev"), 'label "env" is "dev", must not be "dev"', id="NotIn"),
        pytest.param(
            labels("env", "DoesNotExist"), 'label "env" is "dev", must be absent', id="DoesNotExist"
        ),
        pytest.param(labels("env", "In", "prod"), 'label "env" is "dev", needs "prod"', id="another value"),
    ],
)
def test_message_of_predicate_names_actual_value(asked: ClusterPredicate, words: str) -> None:
    verdict = look(*FLEET, spec=PlacementSpec(predicates=(asked,)))
    assert refusal(verdict, "claim") == (NAME, words)
