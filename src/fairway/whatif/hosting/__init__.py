"""Simulate arrivals of hosted clusters under several policies, without a hub.

``arrivals`` generates or reads a trace. ``simulation`` replays it on a fleet of hosting clusters: load is published at
intervals only, as by real providers, so that a policy that trusts it alone sends a burst to one host. ``contenders``
are the policies: those of the hosting controller, and a plain Placement by the published count. The code that decides
is the code that runs in production.
"""

from fairway.whatif.hosting.arrivals import Arrival, TraceError, read_trace, synthetic
from fairway.whatif.hosting.contenders import POLICIES
from fairway.whatif.hosting.simulation import Result, SimulatedHost, simulate, synthetic_hosts

__all__ = [
    "POLICIES",
    "Arrival",
    "Result",
    "SimulatedHost",
    "TraceError",
    "read_trace",
    "simulate",
    "synthetic",
    "synthetic_hosts",
]
