"""Tests of ``spectui.monitor``."""
