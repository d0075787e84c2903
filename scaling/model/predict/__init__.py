"""Predict speed, waiting and network time on any number of ranks from one measured run."""
