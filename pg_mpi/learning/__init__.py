"""Learning: rollouts, advantages, gradients and the optimizer step."""
