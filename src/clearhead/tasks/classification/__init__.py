"""Classification: train on labelled texts, classify, evaluate."""
