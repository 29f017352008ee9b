"""Tests of ``spectui.models``."""
