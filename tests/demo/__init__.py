"""Tests of ``spectui.demo``."""
