"""Tests of ``spectui.tui``."""
