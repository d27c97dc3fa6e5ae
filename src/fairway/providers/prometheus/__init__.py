"""Scores from Prometheus or Thanos: one query per score answers for the whole fleet, and a label names the cluster."""
