"""Faces on the engine's results: the terminal's tables, and the JSON contract."""
