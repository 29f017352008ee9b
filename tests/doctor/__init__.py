"""Tests of ``spectui.doctor``."""
