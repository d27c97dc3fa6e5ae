"""`fairway hosting`: room on hosting clusters, requests, and moves of hosted clusters.

`command` has the group and the plans; `request` reads and deletes one request on a hub; `recover` plans and approves
where the hosted clusters of lost hosting clusters go; `lose` answers what a loss would strand, and `adopt` creates
requests for hosted clusters that exist.
"""
