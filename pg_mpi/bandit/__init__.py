"""The multi-armed bandit testbed: the policy gradient in its smallest form, and what it is measured against."""
