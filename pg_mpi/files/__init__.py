"""Files: the run folder, checkpoints, metrics, traces, tables and videos. Only this package writes files."""
