"""`fairway fleet`: generate synthetic fleets, show the clusters in files, and apply files to a hub."""
