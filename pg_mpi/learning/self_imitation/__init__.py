"""Self-imitation learning (Oh et al., 2018): ``--replay``."""
