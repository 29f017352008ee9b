"""The speculative core: drafting, verification, acceptance and what is counted of it.

Pure Python: no ctypes, no threads, no files. It sees models only through ``models`` and time only
through an injected clock, so that scripted models can drive it in tests. The loop follows
llama.cpp's ``examples/speculative-simple`` and ``server_context_impl`` in
``tools/server/server-context.cpp``.
"""
