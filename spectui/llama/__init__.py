"""The binding: models, contexts, batches and samplers on llama.cpp's low-level API.

The only package that imports ``llama_cpp``. A failed ``GGML_ASSERT`` ends the whole process, so
what llama.cpp would assert is checked here first.
"""
