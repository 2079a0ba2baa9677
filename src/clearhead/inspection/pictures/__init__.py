"""Pictures of what happens inside a model: PNG, SVG or PDF, each with a caption and words for who cannot see it."""
