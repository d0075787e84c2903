"""Files: the run folder, checkpoints, metrics, traces, tables and videos. The only part that writes files."""
