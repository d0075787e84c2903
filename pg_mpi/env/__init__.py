"""Environments: Atari and Gymnasium. Only this package imports ale_py and gymnasium."""
