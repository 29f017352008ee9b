"""Tests of ``spectui.cli``."""
