"""Screen → observation: the set of active inputs that the policy sees."""
