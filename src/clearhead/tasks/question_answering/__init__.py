"""Question answering: a span of a text, or one of the answers seen in training."""
