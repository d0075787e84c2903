"""Slow and quick environments, driven in lock-step, independently, and both: who waits for whom."""
