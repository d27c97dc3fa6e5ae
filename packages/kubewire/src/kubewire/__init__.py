"""What a program that speaks to Kubernetes API servers needs: typed objects, documents, a client, guarded listeners.

- ``api`` has the typed basics: object metadata, conditions, quantities, label selectors, names, JSONPath, leases,
  events, and CRDs generated from msgspec Structs. It does no I/O.
- ``documents`` reads and writes YAML and JSON with the line of every field.
- ``client`` has kubeconfig, requests, watches, informers, the work queue, leader election and event recording.
- ``inbound`` limits the connections of a server before and after authentication.

This module imports none of them: a program that needs quantities only does not load a client.
"""

from kubewire import version

__all__ = ["__version__"]

__version__ = version.VERSION
