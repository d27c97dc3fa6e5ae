"""The work agent: applies the ManifestWorks of a cluster, as OCM's work agent does.

    ManifestWork ──manifest──▶ desired objects ──plan──▶ actions ──applier──▶ managed cluster
                                                   └──▶ applied_works (AppliedManifestWork) ──status──▶ ManifestWork

``agent`` has queue and watches, ``reconcile`` the order of steps for one work, ``plan`` the decisions without I/O.
``conflicts`` finds works with the same object, ``executor`` checks the rights of a work's executor, ``feedback`` and
``condition_rules`` compute what a work reports, ``drift`` compares objects, ``watches`` notices changed objects,
``repair_backoff`` delays repairs that another client keeps undoing.

Words: a *record* is the work's AppliedManifestWork; to *release* an object is to delete it or to remove our reference.
"""

from fairway.klusterlet.works.agent import WorkAgent
from fairway.klusterlet.works.applied_works import hub_hash
from fairway.klusterlet.works.rbac import RULES_CLUSTER, RULES_HUB, RULES_HUB_TTL

__all__ = ["RULES_CLUSTER", "RULES_HUB", "RULES_HUB_TTL", "WorkAgent", "hub_hash"]
