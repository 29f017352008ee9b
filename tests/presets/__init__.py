"""Tests of ``spectui.presets``."""
