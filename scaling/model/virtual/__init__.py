"""Virtual ranks: real training on one machine with a simulated clock."""
