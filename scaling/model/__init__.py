"""Performance models for any number of ranks."""
