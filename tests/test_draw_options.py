"""Tables of options, drawn from parsers."""

import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

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
BRANCHES = """
    get_env("LLAMA_ARG_ALPHA", params.a);
    if (arg == "-a" || arg == "--alpha") {
        CHECK_ARG
        params.a = std::stoi(argv[i]);
        return true;
    }
    if (arg == "--beta") {
        params.b = true;
        return true;
    }
    if (arg == "-nb" || arg == "--no-beta") {
        params.b = false;
        return true;
    }
    if (arg == "--pair") {
        CHECK_ARG
        CHECK_ARG
        return true;
    }
"""
LOGGING = """
    if ( param == "--log-off")
    {
        return true;
    }
    if ( param == "--log-file")
    {
        if (!check_but_dont_parse)
        {
            log_set_target(next);
        }
        return true;
    }
"""


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a function of the tool
    tool = runpy.run_path(str(TOOL))
    monkeypatch.setitem(tool["main"].__globals__, "TABLES", tmp_path)

    def draw(*arguments: object) -> list[str]:
        dated = [] if str(arguments[1]).endswith(".git") else ["--version", VERSION]
        tool["main"]([*map(str, arguments), *dated])
        table = f"{arguments[0]}-gone" if "--gone" in arguments else str(arguments[0])
        text = (tmp_path / f"{table}.txt").read_text("utf-8")
        return [line for line in text.splitlines() if not line.startswith("#")]

    return draw


def test_the_parser_of_llama_cpp(drawn: Any, tmp_path: Path) -> None:  # noqa: ANN401 - as above
    source = tmp_path / "arg.cpp"
    source.write_text(ARG, "utf-8")
    expected = ["-a --alpha = $ALPHA", "--beta ! -nb --no-beta", "--file @"]
    assert drawn("llama.cpp", source) == expected
    first, *_ = (tmp_path / "llama.cpp.txt").read_text("utf-8").splitlines()
    assert first == f"# What the llama-server of {VERSION} takes, by arg.cpp."
    # A mark by hand stays.
    (tmp_path / "llama.cpp.txt").write_text("+ -a --alpha =\n--file =\n", "utf-8")
    assert drawn("llama.cpp", source) == ["+ -a --alpha = $ALPHA", *expected[1:2], "--file ="]


def test_a_parser_of_branches_and_its_history(drawn: Any, tmp_path: Path) -> None:  # noqa: ANN401 - as above
    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(
            ["git", *identity, *words], cwd=tmp_path / "r", check=True, capture_output=True
        )

    source = tmp_path / "r" / "common" / "common.cpp"
    source.parent.mkdir(parents=True)
    git("init")
    for text in (BRANCHES, BRANCHES.replace('"--pair"', '"--duo"')):
        source.write_text(text, "utf-8")
        git("add", ".")
        git("commit", "-m", "x", "--date", "2026-01-02T03:04:05Z")
    repository = tmp_path / "r" / ".git"
    first = ["-a --alpha = $ALPHA", "--beta ! -nb --no-beta"]
    assert drawn("ik", repository) == [*first, "--duo = ="]
    [gone] = drawn("ik", repository, "--gone")
    assert gone.startswith("--pair = = % ")
    # Some options stand in a file beside it.
    source.with_name("log.h").write_text(LOGGING, "utf-8")
    assert drawn("ik", tmp_path / "r") == [*first, "--duo = =", "--log-off", "--log-file ="]


def test_every_table_has_the_build_and_date_of_its_parser() -> None:
    for dialect in Dialect:
        assert re.fullmatch(r"(ik_)?llama\.cpp \w+ of 2026-\d\d-\d\d", drawn_from(dialect))
