"""A module that does not import."""

Env = 1 / 0
