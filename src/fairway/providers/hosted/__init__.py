"""How many hosted clusters a hosting cluster carries, and how many more it can.

The count and the claims are those of the hypershift add-on, so that placements written for it go on to work. A count
alone says little: hosting clusters differ in size and hosted clusters in weight. So the room that is left is published
as well, in hosted clusters of each size.
"""

from fairway.providers.hosted.capacity import RESOURCE
from fairway.providers.hosted.claims import owned_rules
from fairway.providers.hosted.provider import NAME, RULES, HostedClusters

__all__ = ["NAME", "RESOURCE", "RULES", "HostedClusters", "owned_rules"]
