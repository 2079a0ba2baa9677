"""The stories: train a translator, translate, measure."""
