"""What the explorer's page is told of a model and of a trace: plain JSON and bytes (docs/trace.md)."""
