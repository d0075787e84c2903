"""The mind: policy, advantages, gradient and optimizer. Pure numpy and scipy: no MPI, no emulator."""
