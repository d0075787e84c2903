"""Multi-armed bandit testbed: the policy gradient compared with other methods."""
