"""Formats of other libraries: import and export."""
