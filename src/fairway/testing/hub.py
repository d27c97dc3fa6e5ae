"""The embedded hub with OCM's and Fairway's kinds: in the running event loop, or in a thread for tests that block."""

from functools import partial
from typing import Final

from fairway.api import crds
from kubehub.testing import hub
from kubehub.testing.hub import HubAddress

__all__ = ["HubAddress", "embedded_hub", "hub_in_thread"]

embedded_hub: Final = partial(hub.embedded_hub, definitions=tuple(crds()))
hub_in_thread: Final = partial(hub.hub_in_thread, definitions=tuple(crds()))
