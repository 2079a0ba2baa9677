"""Which examples share a batch: the same for the same seed and epoch."""
