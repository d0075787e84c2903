"""How near training is to the emulator's own speed: training taken apart, and timed with one part more each time."""
