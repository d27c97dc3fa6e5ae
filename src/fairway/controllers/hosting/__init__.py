"""Place HostedClusterRequests on hosting clusters, and create the hosted clusters there.

Data flow: informers feed a ``HostingState`` and the queue of a ``SchedulingLoop`` (``controller``). A decision is bound
by one write, the reservation in the request's status (``binding``). Everything after that is reconciled from what the
hub shows (``residence``): the ManifestWork, what the hosting cluster reports, the release after a deadline or a
deletion. ``stray_works`` deletes ManifestWorks that no request has any more. ``hub_access`` reads and writes.
``keys`` has the types of keys in the controller's queue. Tenants
take turns in all queues. ``refusal_writer`` writes
the reasons of requests without a place after everything else, and ``offers`` tries them again.

A crash between two writes leaves a state that the next leader continues from: the reservation is written before the
ManifestWork, and ends after it. Requests have a finalizer from before the reservation until the work is deleted.
"""

from fairway.controllers.hosting.controller import HostingController
from fairway.controllers.hosting.rbac import RULES

__all__ = ["RULES", "HostingController"]
