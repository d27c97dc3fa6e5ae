"""The wire to a Kubernetes API: kubeconfig, requests, watches, informers, the work queue, leases and events.

Made for fleets: objects are decoded straight into typed Structs, and a watch event costs microseconds.
Decoding drops fields the types don't know, so a typed object is never sent back whole: writes are patches of
the fields we own, or creations.

May import ``fairway.api`` and ``fairway.observe`` only.
"""
