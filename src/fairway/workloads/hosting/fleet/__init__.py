"""The hosting clusters: what they publish, how much room that leaves, and who is there.

``telemetry`` reads what a cluster publishes, ``capacity`` makes amounts of it, ``facts`` are all about one of them.
``residents`` and ``tenant_usage`` have the requests with a place, ``placement_promises`` the decisions of Placements
that the load does not include yet, ``departures`` what residents gave up. ``table`` has all of it by cluster, with the
``columns`` that hosting adds, ``snapshot`` is what cycles read, ``largest_offers`` the largest host of each dimension.
``outages`` tells when a host counts as lost.
"""
