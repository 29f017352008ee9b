"""Tables of options, drawn from parsers."""

import io
import re
import runpy
import tarfile
import zipfile
from pathlib import Path

import pytest

from spectui.commands.server_options import LATER, drawn_from
from spectui.options.option import Dialect
from tests.support.binaries import CURRENT, write_script
from tools import newest_options

TOOL = Path(__file__).parents[1] / "tools" / "draw_options.py"
ARG = """
    add_opt(common_arg(
        {"-a", "--alpha"}, "N",
        "text [note](link)",
        [](common_params & params, int value) { params.a = value; }
    ).set_env("LLAMA_ARG_ALPHA"));
    add_opt(common_arg(
        {"--beta"}, {"-nb", "--no-beta"},
        string_format("text %s", "x"),
        [](common_params & params, bool value) { params.b = value; }
    ).set_examples({LLAMA_EXAMPLE_SERVER}));
    add_opt(common_arg({"--file"}, "FNAME", "text", [](common_params & p, std::string & v) {}));
    add_opt(common_arg({"--other"}, "x", [](common_params & p) {})
        .set_examples({LLAMA_EXAMPLE_BENCH}));
    add_opt(common_arg({"--gone"}, "N", "x", [](common_params & p, int v) { arg_removed("x"); }));
"""
VERSION = "llama.cpp b1 of 2026-01-02 (abc)"


def test_the_parser_of_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = runpy.run_path(str(TOOL))["main"]
    monkeypatch.setitem(main.__globals__, "TABLES", tmp_path)
    source, table = tmp_path / "arg.cpp", tmp_path / "llama.cpp.txt"
    source.write_text(ARG, "utf-8")
    main(["llama.cpp", str(source), "--version", VERSION])
    first, *lines = table.read_text("utf-8").splitlines()
    assert first == f"# What the llama-server of {VERSION} takes, by arg.cpp."
    drawn = [line for line in lines if not line.startswith("#")]
    assert drawn == ["-a --alpha = $ALPHA", "--beta ! -nb --no-beta", "--file @"]
    # A mark by hand stays.
    table.write_text("+ -a --alpha =\n--file =\n", "utf-8")
    main(["llama.cpp", str(source), "--version", VERSION])
    marked = table.read_text("utf-8").splitlines()
    assert {"+ -a --alpha = $ALPHA", "--file ="} <= {*marked}


def test_what_a_newer_server_has_beyond_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = runpy.run_path(str(TOOL))["main"]
    monkeypatch.setitem(main.__globals__, "TABLES", tmp_path)
    new = "--new N                                 newer (env: LLAMA_ARG_NEW)\n"
    program = write_script(tmp_path / "server", f"#!/bin/sh\ncat <<E\n{CURRENT}{new}E\n")
    source = tmp_path / "help"
    source.write_text(CURRENT, "utf-8")
    main(["llama.cpp", str(source), "--version", VERSION])
    later = tmp_path / f"{LATER}.txt"
    main([LATER, str(program), "--version", "llama.cpp b9 of 2026-09-09"])
    first, _, line = later.read_text("utf-8").splitlines()
    assert "b9 of 2026-09-09" in first
    assert line == "--new = $NEW"


def test_names_of_a_package_that_no_table_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        b"--ctx-size",
        b"LLAMA_ARG_CTX_SIZE",
        b"--git-like",
        b"--threads",
        b"-x",
        b"LLAMA_ARG_",
    ]
    older = b"\0".join([b"", *names, b""])
    newer = older.replace(b"--threads", b"--brand-new\0LLAMA_ARG_BRAND_NEW\0not --an-option")
    library, wheel, npm = (tmp_path / name for name in ("lib.so", "new.whl", "new.tgz"))
    library.write_bytes(older)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("package/other.so", b"\0--ctx-size\0")
        archive.writestr("package/lib.so", newer)
    with tarfile.open(npm, "w:gz") as tar:
        member = tarfile.TarInfo("package/lib.node")
        member.size = len(newer)
        tar.addfile(member, io.BytesIO(newer))
    newest_options.main([str(wheel), str(npm), str(library), "--pinned", str(library)])
    told = "new --brand-new, LLAMA_ARG_BRAND_NEW; gone --threads"
    assert capsys.readouterr().out.splitlines() == [
        f"new.whl: {told}",
        f"new.tgz: {told}",
        "lib.so: new nothing; gone nothing",
    ]
    wheel.write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="no library with the parser"):
        newest_options.main([str(wheel), "--pinned", str(library)])


def test_every_table_has_the_build_and_date_of_its_parser() -> None:
    for dialect in Dialect:
        assert re.fullmatch(r"(ik_)?llama\.cpp \w+ of 2026-\d\d-\d\d", drawn_from(dialect))
