"""A training run: how it is put together, saved, resumed, counted and logged."""
