"""Scores that somebody wrote down: prices, carbon, latency, or whom to prefer, by cluster, by label or by time."""
