"""A module that raises when it is imported."""

Env = 1 / 0
