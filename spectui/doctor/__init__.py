"""Examination of a machine and a pair before a weight is loaded."""
