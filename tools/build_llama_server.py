"""Build llama-server with its library, its parser and devices, once per machine.

All come from the sdist of the llama-cpp-python release that pyproject.toml pins, so that its
library has the very structures that the binding declares. Results are
kept in a cache outside the clone; what is there already is only printed.

    python tools/build_llama_server.py           # prints the path of llama-server
    python tools/build_llama_server.py rpc       # prints a folder: devices where there is no GPU
    python tools/build_llama_server.py vulkan    # another one: Vulkan, with a software driver
    python tools/build_llama_server.py parser    # a program that says what llama-server understands

The cache is ``SPECTUI_BUILD_CACHE``, else ``spectui/build`` in the user's cache folder.
``CMAKE_ARGS`` (such as ``-DGGML_CUDA=on``) reaches all builds. Standard library only: this runs
before anything is installed.
"""

import argparse
import fcntl
import functools
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
PARSER = Path(__file__).resolve().parent / "server_parser"
CPUINFO = Path("/proc/cpuinfo")
CPU_FIELDS = ("model name", "flags", "Features", "CPU implementer", "CPU part")
CMAKE_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
    # Shared libraries, llama.cpp's default: tests load them, and they are found beside the binary.
    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
)
VULKAN_PACKAGES = (
    # The compiler of shaders, Vulkan's loader, and Mesa's driver for machines without a GPU.
    *("glslc/bookworm", "libshaderc1/bookworm", "libvulkan1/bookworm"),
    "mesa-vulkan-drivers/bookworm",
    # Headers, for which Debian 12's are too old.
    *("libvulkan-dev/trixie", "spirv-headers/trixie"),
)

Run = Callable[..., None]
Builder = Callable[[Path, Run], Path]


class BuildError(Exception):
    """A build failed; the message names the log."""


def pinned_requirement(pyproject: Path = PYPROJECT) -> str:
    """Return the pin of llama-cpp-python, such as ``llama-cpp-python==0.3.36``."""
    dependencies = tomllib.loads(pyproject.read_text("utf-8"))["project"]["dependencies"]
    return next(str(pin) for pin in dependencies if pin.startswith("llama-cpp-python=="))


def cache_root(environ: Mapping[str, str]) -> Path:
    """Return the folder of all builds."""
    if chosen := environ.get("SPECTUI_BUILD_CACHE"):
        return Path(chosen).absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spectui" / "build"


def cpu_identity(cpuinfo: Path = CPUINFO) -> str:
    """Return what the compiler's native flags depend on: the first core's model and features."""
    if not cpuinfo.exists():
        return f"{platform.machine()} {platform.processor()}"
    first_core = cpuinfo.read_text("utf-8").partition("\n\n")[0].splitlines()
    return "\n".join(line for line in first_core if line.partition("\t")[0] in CPU_FIELDS)


def cmake_options(environ: Mapping[str, str]) -> list[str]:
    """Return the options of llama-server's build."""
    return [*CMAKE_OPTIONS, *shlex.split(environ.get("CMAKE_ARGS", ""))]


def build_key(requirement: str, cpu: str, options: Sequence[str]) -> str:
    """Name one release, built with these options for this CPU."""
    recipe = "\n".join([cpu, *options])
    return f"{requirement.replace('==', '-')}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"


def builds(environ: Mapping[str, str]) -> Path:
    """Return the folder of what is built of the pinned release for this machine."""
    key = build_key(pinned_requirement(), cpu_identity(), cmake_options(environ))
    return cache_root(environ) / key


def run_logged(log: Path, *command: str | Path) -> None:
    """Run a program with its output appended to ``log``.

    Raises:
        BuildError: it is not installed or failed.
    """
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(map(str, command))}\n".encode())
        output.flush()
        try:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            ).returncode
        except FileNotFoundError as error:
            raise BuildError(f"{command[0]} is not installed; install it and try again") from error
    if code != 0:
        raise BuildError(f"{command[0]} failed with exit code {code}; its output is in {log}")


def download_sdist(workspace: Path, run: Run) -> Path:
    """Fetch the pinned sdist and return its path."""
    arguments = ("download", "--no-deps", "--no-binary", "llama-cpp-python", "--dest", workspace)
    run(sys.executable, "-m", "pip", *arguments, pinned_requirement())
    return next(workspace.glob("*.tar.gz"))


def build_server(workspace: Path, run: Run) -> Path:
    """Build llama-server and return a folder that holds it and its libraries."""
    return built(workspace / "tree", "llama-server", (), unpacked(workspace, run), run) / "bin"


def build_rpc(workspace: Path, run: Run) -> Path:
    """Build ggml-rpc-server, and the RPC backend as a library, and return a folder that holds both.

    ``ggml-rpc-server`` stands there with its libraries; ``module/libggml-rpc.so`` is what
    ``GGML_BACKEND_PATH`` names for a wheel and a llama-server that were built without RPC.
    """
    sources, rpc = unpacked(workspace, run), "-DGGML_RPC=ON"
    server = built(workspace / "server", "ggml-rpc-server", (rpc,), sources, run) / "bin"
    # The processor's backend, which this tree never compiles, could not be native in it.
    loadable = (rpc, "-DGGML_BACKEND_DL=ON", "-DGGML_NATIVE=OFF")
    module = built(workspace / "module", "ggml-rpc", loadable, sources, run) / "bin"
    (server / "module").mkdir()
    (module / "libggml-rpc.so").replace(server / "module" / "libggml-rpc.so")
    return server


def build_vulkan(workspace: Path, run: Run) -> Path:
    """Build the Vulkan backend as a library, and return a folder that holds it and a driver.

    ``GGML_BACKEND_PATH`` names its ``libggml-vulkan.so``, ``VK_DRIVER_FILES`` its ``driver.json``.
    """
    packages, result = workspace / "packages", workspace / "result"
    unpack_debian(VULKAN_PACKAGES, packages, run)
    libraries = next(packages.glob("usr/lib/*/libvulkan.so.1")).parent
    result.mkdir()
    driver = result / "libvulkan_lvp.so"
    (libraries / driver.name).replace(driver)
    shutil.copy(libraries / "libvulkan.so.1", result)
    icd = {"api_version": "1.3.0", "library_path": f"./{driver.name}"}
    manifest = {"file_format_version": "1.0.0", "ICD": icd}
    (result / "driver.json").write_text(json.dumps(manifest))
    try:
        run(sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", driver)
    except BuildError as error:
        needed = "`apt-get install mesa-vulkan-drivers` installs what the driver needs"
        raise BuildError(f"{needed}: {error}") from error
    options = (
        *("-DGGML_VULKAN=ON", "-DGGML_BACKEND_DL=ON", "-DGGML_NATIVE=OFF"),
        f"-DVulkan_INCLUDE_DIR={packages / 'usr' / 'include'}",
        f"-DVulkan_LIBRARY={result / 'libvulkan.so.1'}",
        f"-DVulkan_GLSLC_EXECUTABLE={quick_glslc(packages, libraries)}",
        f"-DSPIRV-Headers_DIR={packages / 'usr' / 'share' / 'cmake' / 'SPIRV-Headers'}",
    )
    module = built(workspace / "tree", "ggml-vulkan", options, unpacked(workspace, run), run)
    (module / "bin" / "libggml-vulkan.so").replace(result / "libggml-vulkan.so")
    return result


def build_parser(workspace: Path, run: Run) -> Path:
    """Build the reader of llama-server's arguments as a program, and return a folder with it.

    It links the libraries of the server beside it, which is built first.
    """
    server = workspace.parent / "server"
    ensure_built(server.name, server.parent)
    sources, result = unpacked(workspace, run), workspace / "result"
    result.mkdir()
    run(sys.executable, PARSER / "fields.py", workspace / "fields.h", sources / "common/common.h")
    folders = ("common", "include", "ggml/include", "ggml/src", "vendor")
    run(
        *("g++", "-std=c++20", "-O1", PARSER / "llama_cpp.cpp", "-o", result / "parser"),
        *(f"-I{folder}" for folder in (workspace, *(sources / name for name in folders))),
        *(f"-L{server}", "-Wl,-rpath,$ORIGIN/../server", f"-Wl,-rpath-link,{server}"),
        *("-lllama-common", "-lllama", "-lggml", "-lggml-base"),
    )
    return result


def quick_glslc(packages: Path, libraries: Path) -> Path:
    """Write a glslc that finds its library and optimises nothing, which takes most of its time."""
    script = packages / "glslc"
    script.write_text(
        '#!/bin/sh\nfor word; do shift; [ "$word" = -O ] || set -- "$@" "$word"; done\n'
        f"export LD_LIBRARY_PATH={shlex.quote(str(libraries))}\n"
        f'exec {shlex.quote(str(packages / "usr" / "bin" / "glslc"))} "$@"\n'
    )
    script.chmod(0o755)
    return script


def unpack_debian(packages: Sequence[str], folder: Path, run: Run) -> None:
    """Unpack packages from the mirror that this machine uses; nothing is installed.

    Args:
        packages: each as ``NAME/RELEASE``.
        folder: where to; it is made.
        run: runs the programs.

    Raises:
        BuildError: it uses none of Debian's.
    """
    lists, sources = folder / "lists", folder / "sources.list"
    (lists / "partial").mkdir(parents=True)
    own = {"State::lists": lists, "Cache": folder / "cache"}
    apt = ["apt-get", *(f"-oDir::{name}={path}" for name, path in own.items()), "-q"]
    run(*apt, "update")
    wanted = ("Created-By: Packages", "Label: Debian", "Component: main")
    mirrors = subprocess.run(
        [*apt, "indextargets", "--format", "$(REPO_URI)", *wanted],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    if not mirrors:
        names = ", ".join(package.partition("/")[0] for package in packages[:2])
        raise BuildError(f"{names} and others are Debian's packages, and apt knows no mirror")
    releases = sorted({package.partition("/")[2] for package in packages})
    sources.write_text("".join(f"deb {mirrors[0]} {release} main\n" for release in releases))
    apt += [f"-oDir::Etc::sourcelist={sources}", "-oDir::Etc::sourceparts=-"]
    run(*apt, "update")
    run("env", "--chdir", folder, *apt, "download", *packages)
    for package in folder.glob("*.deb"):
        run("dpkg-deb", "--extract", package, folder)


def unpacked(workspace: Path, run: Run) -> Path:
    """Return llama.cpp's sources, from the pinned sdist."""
    sdist, sources = download_sdist(workspace, run), workspace / "sources"
    sources.mkdir()
    vendored = f"{sdist.name.removesuffix('.tar.gz')}/vendor/llama.cpp"
    options = ("--no-same-owner", "--strip-components=3", "--directory", sources)
    run("tar", "--extract", "--file", sdist, *options, vendored)
    return sources


def built(tree: Path, target: str, options: Sequence[str], sources: Path, run: Run) -> Path:
    """Build one target of llama.cpp's in a tree of its own, and return the tree."""
    run("cmake", "-S", sources, "-B", tree, *cmake_options(os.environ), *options)
    jobs = str(len(os.sched_getaffinity(0)))
    run("cmake", "--build", tree, "--target", target, "-j", jobs)
    return tree


BUILDERS: dict[str, Builder] = {
    "parser": build_parser,
    "rpc": build_rpc,
    "server": build_server,
    "vulkan": build_vulkan,
}


def folder_name(what: str) -> str:
    """Name the folder of a result; the parser's changes with its own sources."""
    if what != "parser":
        return what
    sources = b"".join(path.read_bytes() for path in sorted(PARSER.iterdir()) if path.is_file())
    return f"{what}-{hashlib.sha256(sources).hexdigest()[:8]}"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time in; the system frees the lock of a process that dies."""
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure_built(what: str, home: Path, build: Builder | None = None) -> None:
    """Build ``home/what`` unless it is there.

    It comes into being by one rename at the end: an interrupted build leaves nothing that looks
    finished, only a ``.partial`` folder that the next build removes.
    """
    home.mkdir(parents=True, exist_ok=True)
    final, workspace, log = home / what, home / f"{what}.partial", home / f"{what}.log"
    with locked(home / f"{what}.lock"):
        if final.exists():
            return
        print(f"building {what}: up to 10 minutes on 2 cores; log: {log}", file=sys.stderr)
        shutil.rmtree(workspace, ignore_errors=True)
        workspace.mkdir()
        log.unlink(missing_ok=True)
        try:
            build = build or BUILDERS[what.partition("-")[0]]
            build(workspace, functools.partial(run_logged, log)).replace(final)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print where the result is, after building it if need be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=sorted(BUILDERS), default="server")
    parser.add_argument("--no-build", action="store_true", help="fail if it is not built yet")
    options = parser.parse_args(arguments)
    home = builds(os.environ)
    result = home / folder_name(options.what)
    if not result.exists():
        if options.no_build:
            print(f"{result} is not built yet", file=sys.stderr)
            return 1
        try:
            ensure_built(result.name, home)
        except BuildError as error:
            print(error, file=sys.stderr)
            return 1
    programs = {"server": "llama-server", "parser": "parser"}
    print(result / programs.get(options.what, ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
