"""What a HostingPolicy permits and adds: a request is checked against it before it is placed, and when it is edited.

``policy`` is the policy itself, with ``tenancy`` (tenants, quotas, priorities), ``permits`` (what a request may create
on a host) and ``template`` (defaults). ``host_namespaces`` derives the namespaces on a host, ``edits`` checks changes
of a request with a place, ``schema`` compares a request with what a host requires, ``refusals`` has what hosts refused.
"""
