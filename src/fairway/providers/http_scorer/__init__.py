"""Scores from anybody's HTTP service, which answers as OCM's Dynamic Scoring Framework asks it to."""
