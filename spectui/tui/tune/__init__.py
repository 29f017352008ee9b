"""Tuning in the background, watched and steered."""
