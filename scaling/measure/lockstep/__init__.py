"""Environments with slow steps, driven in lock-step, independently, or in groups."""
