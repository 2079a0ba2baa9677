"""Metrics and tests of how good a model's output is. Import its files directly: some load sacreBLEU."""
