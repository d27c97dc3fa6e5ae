"""Conditions of an add-on, from what the agent reported about its work."""

from fairway.api.work import WORK_APPLIED, ManifestWork, ManifestWorkStatus
from fairway.controllers.addons import conditions, works
from fairway.controllers.addons.health import manifests_applied
from kubewire.api.meta import Condition, ObjectMeta


def reported(*, generation: int, observed: int) -> ManifestWork:
    condition = Condition(
        type=WORK_APPLIED, status="True", reason="AppliedManifestWorkComplete", observedGeneration=observed
    )
    return ManifestWork(
        metadata=ObjectMeta(name="addon-a-deploy-0", namespace="c", generation=generation),
        status=ManifestWorkStatus(conditions=(condition,)),
    )


def test_report_about_the_present_work_counts_as_applied() -> None:
    work = reported(generation=2, observed=2)
    assert works.applied(work)
    assert manifests_applied(work, "a").reason == conditions.APPLIED


def test_report_about_an_earlier_version_of_the_work_does_not_count_as_applied() -> None:
    work = reported(generation=2, observed=1)
    assert not works.applied(work)
    assert manifests_applied(work, "a").reason == conditions.WAITING
