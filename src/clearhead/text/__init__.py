"""Text to token ids and back; independent of torch."""
