"""Models assembled from layers, and the one list of them."""
