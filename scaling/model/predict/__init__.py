"""From one measured run to any number of ranks: what each part costs, who waits, what the network takes."""
