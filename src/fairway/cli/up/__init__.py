"""`fairway up`: the embedded hub, all controllers and a synthetic fleet in one process."""
