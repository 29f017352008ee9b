"""Tests of ``spectui.trace``."""
