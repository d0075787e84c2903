"""The memory: the run folder, checkpoints, metrics and videos. The only part that writes files."""
