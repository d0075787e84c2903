"""Measurements of learning over seeds, games and settings."""
