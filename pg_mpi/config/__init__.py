"""Settings: their definitions, presets and command line. The standard library alone."""
