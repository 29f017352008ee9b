"""Tests of ``spectui.options``."""
