"""Tests of ``spectui.engine``."""
