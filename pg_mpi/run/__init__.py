"""A training run: set-up, resume, checkpoints, counters and logs."""
