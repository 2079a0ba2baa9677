"""Pictures of explanations; `draw.py` has the table of all of them."""
