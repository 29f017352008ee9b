"""Tests of ``spectui.served``."""
