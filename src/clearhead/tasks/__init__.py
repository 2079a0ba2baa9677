"""The stories: train a translator, translate, explain."""
