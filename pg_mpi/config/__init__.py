"""Settings: definitions, presets and command line. Needs only the standard library."""
