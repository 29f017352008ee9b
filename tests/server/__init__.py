"""Tests of ``spectui.server``."""
