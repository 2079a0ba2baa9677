"""Looking inside a model and changing what is seen."""
