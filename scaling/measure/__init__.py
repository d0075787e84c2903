"""Measuring speed: real runs on this machine's cores."""
