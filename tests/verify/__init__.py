"""Tests of ``spectui.verify``."""
