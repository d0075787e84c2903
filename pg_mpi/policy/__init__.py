"""Policies: networks, distributions over actions, and their losses. Pure numpy and scipy."""
