"""Tests of ``spectui.commands``."""
