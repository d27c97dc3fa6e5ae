"""Scores from an HTTP service that implements the contract of OCM's Dynamic Scoring Framework.

    Prometheus series or cluster names ──contract──▶ POST to the scorer ──▶ readings

``breaker`` stops requests to a failing scorer for a while; ``options`` is the configuration.
"""
