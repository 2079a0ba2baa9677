"""Epochs of batches: planned from a seed, shared among ranks, resumable anywhere."""
