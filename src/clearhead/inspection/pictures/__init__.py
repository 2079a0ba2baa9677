"""Pictures of what happens inside a model, each with a caption, and with words for who cannot see it."""
