"""How good a model's output is."""
