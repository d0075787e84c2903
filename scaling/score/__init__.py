"""Measuring learning: scores over seeds, games and settings."""
