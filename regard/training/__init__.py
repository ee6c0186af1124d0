"""Training: the loop, its losses, optimizers, schedules and checkpoints."""
