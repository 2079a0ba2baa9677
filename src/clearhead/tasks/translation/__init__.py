"""Translation: train on pairs of sentences, translate, evaluate."""
