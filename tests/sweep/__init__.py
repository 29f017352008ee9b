"""Tests of ``spectui.sweep``."""
