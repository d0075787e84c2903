"""Training speed relative to the emulator's, and the cost of each part of training."""
