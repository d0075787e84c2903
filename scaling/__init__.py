"""Measuring how fast it trains, and why."""
