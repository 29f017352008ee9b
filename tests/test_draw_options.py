"""Tables of options, drawn from parsers."""

import re
import runpy
from pathlib import Path

import pytest

from spectui.commands.server_options import drawn_from
from spectui.options.dialect import Dialect

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


def test_every_table_has_the_build_and_date_of_its_parser() -> None:
    for dialect in Dialect:
        assert re.fullmatch(r"(ik_)?llama\.cpp \w+ of 2026-\d\d-\d\d", drawn_from(dialect))
