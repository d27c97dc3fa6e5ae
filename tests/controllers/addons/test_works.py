"""Health of an add-on from the status of its work."""

import pytest

from fairway.api.work import WORK_APPLIED, ManifestWork, ManifestWorkStatus
from fairway.controllers.addons import conditions, health, works
from kubewire.api.meta import TRUE, Condition, ObjectMeta


def work(*, generation: int, reported: int, status: str = TRUE) -> ManifestWork:
    applied = Condition(type=WORK_APPLIED, status=status, observedGeneration=reported)
    return ManifestWork(
        metadata=ObjectMeta(name="addon-a-deploy-0", namespace="c", generation=generation),
        status=ManifestWorkStatus(conditions=(applied,)),
    )


@pytest.mark.parametrize(
    ("reported", "status", "applied"), [(3, TRUE, True), (2, TRUE, False), (3, "False", False)]
)
def test_report_about_an_earlier_generation_does_not_count_as_applied(
    reported: int, status: str, applied: bool
) -> None:
    hook = work(generation=3, reported=reported, status=status)
    assert works.applied(hook) is applied
    condition = health.manifests_applied(hook, "a")
    assert condition.type == conditions.MANIFEST_APPLIED
    assert (condition.status == TRUE) is applied
