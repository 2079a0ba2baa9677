"""Masked language modelling: pre-train an encoder on text, fill masks, compare sentences."""
