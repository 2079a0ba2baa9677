"""Word vectors: train on any text, find neighbours and analogies, evaluate."""
