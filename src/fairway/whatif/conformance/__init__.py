"""Compare results with those recorded from the reference implementations.

``recording`` reads a file, detects its family and calls the runner of the family: ``cel``, ``placement``,
``pod_requests``, ``pod_scheduling`` or ``quantity``. ``replay`` decides recorded placement scenarios, and
``differences`` compares results.
"""

__all__ = ["cel", "differences", "placement", "pod_requests", "quantity", "recording", "replay"]
