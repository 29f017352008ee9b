"""Tests of ``spectui.lint``."""
