"""`fairway hosting`: room on hosting clusters, requests, and moves of hosted clusters.

`command` has the group and what only plans; `request` reads and deletes one request on a hub.
"""
