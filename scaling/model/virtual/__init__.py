"""Any number of ranks on this machine: real training, a virtual clock."""
