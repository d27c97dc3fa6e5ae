"""`fairway run`: run controllers against an existing hub."""
