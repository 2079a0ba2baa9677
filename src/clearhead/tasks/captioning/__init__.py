"""Captioning: train on images with captions, describe images, evaluate."""
