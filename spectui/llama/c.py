"""llama.cpp's C API, imported in one place."""

import os
from typing import Any

# Without this a failed assertion starts a debugger, where one is installed, and hangs.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import llama_cpp.llama_cpp
import llama_cpp.llama_cpp_ext

C: Any = llama_cpp.llama_cpp
"""The binding. Untyped on purpose: its annotations describe ctypes, not what calls accept."""

EXT: Any = llama_cpp.llama_cpp_ext
"""llama.cpp's staging API (``llama-ext.h``): hidden states for MTP."""
