# Compiles of llama.cpp what spectui loads, and leaves out what llama-cpp-python builds besides: the
# library of llama.cpp's own programs. For CMAKE_PROJECT_INCLUDE; it takes effect over the cache entry
# that llama-cpp-python sets, by CMake's policies CMP0126 and CMP0077.
set(LLAMA_BUILD_COMMON OFF)
set(LLAVA_BUILD OFF)
