"""Tests of ``spectui.llama``."""
