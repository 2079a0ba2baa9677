"""Language modelling: train on running text or instructions, generate, evaluate."""
