"""Benchmarks of speed and learning, and performance models."""
