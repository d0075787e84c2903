"""Policies: networks, action distributions and losses, in numpy and scipy."""
