"""From next-word scores to sentences."""
