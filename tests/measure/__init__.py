"""Tests of ``spectui.tune``."""
