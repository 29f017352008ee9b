"""Examines a llama-server command: options that its reader refuses, ignores or misreads.

Rules look at the arguments alone, at no file and no machine. One file per family of rules.
"""
