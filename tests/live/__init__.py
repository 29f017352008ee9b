"""Tests of ``spectui.live``."""
