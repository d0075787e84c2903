"""Tune settings: many training runs at once, each on a group of ranks of one job."""
