"""Strings to ids and back; knows nothing of torch."""
