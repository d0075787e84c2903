"""Models of speed: from measured runs to any number of ranks."""
