"""Tests of ``spectui.speculative``."""
