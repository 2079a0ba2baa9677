"""N-grams: count running text, generate, evaluate."""
