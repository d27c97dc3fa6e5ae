"""`fairway hosting`: room on hosting clusters, dry runs of requests, and moves of hosted clusters."""
