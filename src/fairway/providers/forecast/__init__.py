"""Forecasts: records another provider's values, and publishes what they will probably be.

    inner provider ──▶ history (one row per cluster and score) ──▶ model (seasonal trend, error) ──▶ readings

A forecast whose past error is too large is not published. ``history`` survives restarts in a file.
"""
