"""Features: screens to observations, the sets of active inputs of the policy."""
