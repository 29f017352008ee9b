"""Tests of ``spectui.export``."""
