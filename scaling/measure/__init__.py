"""Measurements of the speed of real runs."""
