"""Image classification: train on labelled images, classify, evaluate."""
