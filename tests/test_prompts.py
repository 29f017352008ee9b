"""Prompts: every bad input is named by file, line and reason; everything valid loads back equal."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.prompts import ChatMessage, Prompt, builtin_suite, load_prompts
from tests.support.tables import table

CATEGORIES = ["code", "structured", "chat", "prose", "math", "extraction", "summarisation"]
CATEGORIES += ["long-context"]
GOOD = b'{"id": "good", "prompt": "hello"}'
MESSAGE = '{"role": "user", "content": "hi"}'


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


BAD_LINES = {
    b'{"prompt": "a"': "invalid JSON",
    b'{"prompt": "\\ud800 x"}': r"invalid JSON (a \ud800 to \udfff without its other half is no",
    b'{"prompt": "\\ud83d\\ude00"': "invalid JSON (Input data was truncated)",
    b"[" * 100_000: "expected `object`, got `array`",
    b'{"prompt": "a", "temp": 1}': "unknown field `temp`",
    b'{"messages": [{"role": "user", "content": "a", "name": "b"}]}': "`name` - at `$.messages[0]`",
    b'{"prompt": 7}': "expected `str`, got `int` - at `$.prompt`",
    b'{"messages": [{"role": "user"}]}': "missing required field `content`",
    b'{"prompt": "a", "messages": [%b]}' % MESSAGE.encode(): "both prompt and messages",
    b'{"id": "a"}': "neither prompt nor messages",
    b'{"prompt": " \\n\\t"}': "the prompt is empty",
    b'{"messages": []}': "messages is empty",
    b'{"messages": [%b, {"role": "user", "content": " "}]}'
    % MESSAGE.encode(): "message 2 is empty",
    b'{"messages": [{"role": "User", "content": "a"}]}': "unknown role 'User' in message",
    b'{"id": "", "prompt": "a"}': "id or category is empty",
    b'{"id": "good", "prompt": "a"}': "duplicate id 'good'",
    b'{"prompt": "caf\xe9"}': "not UTF-8",
}


@table(("line", "reason"), BAD_LINES.items())
def test_bad_line_is_named_by_file_line_and_reason(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    # The bad line is the fourth: a good one and blank ones before it, a good one after it.
    file = write(tmp_path / "mine.jsonl", b"\n".join([GOOD, b"", b"  \r", line, GOOD]))
    with pytest.raises(BadInputError) as caught:
        load_prompts(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:4: ")
    assert reason in message
    assert "; " in message, "says what to do"
    assert "\n" not in message


def test_bad_text_file_is_named_by_file_line_and_reason(tmp_path: Path) -> None:
    for data, line, reason in (
        (b"\xef\xbb\xbf", 1, "the prompt is empty"),
        (b"first\nsecond\ncaf\xe9\n", 3, "not UTF-8"),
    ):
        file = write(tmp_path / "mine.txt", data)
        with pytest.raises(BadInputError, match=rf"mine\.txt:{line}: .*{reason}"):
            load_prompts(file)


def test_no_prompts_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "sub.jsonl").mkdir()
    write(tmp_path / "empty.jsonl", b"\xef\xbb\xbf\n\r\n  \n")
    write(tmp_path / "prompts.csv", b"a,b")
    for name, reason in (
        ("missing.jsonl", "cannot read the prompts in .*missing.jsonl .*; check"),
        ("x" * 300 + ".txt", "cannot read the prompts in .*; check"),
        ("empty.jsonl", r"empty\.jsonl contains no prompts; write"),
        ("prompts.csv", r"prompts\.csv is not a prompt file; give a \.jsonl"),
        ("folder", r"holds no \.jsonl or \.txt file; put"),
    ):
        with pytest.raises(BadInputError, match=reason):
            load_prompts(tmp_path / name)


def test_folder_is_read_in_order_of_names_and_not_recursively(tmp_path: Path) -> None:
    write(tmp_path / "c.TXT", b"last")
    write(tmp_path / "a.txt", b"first")
    write(tmp_path / "b.jsonl", b'{"prompt": "x"}\n\n{"prompt": "y"}\n')
    write(tmp_path / "ignored.md", b"\xff")
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub" / "d.txt", b"not read")
    assert [prompt.id for prompt in load_prompts(tmp_path)] == ["a", "b-1", "b-3", "c"]


def test_duplicate_across_files_names_both_places(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", b'\n{"id": "b", "prompt": "x"}')
    write(tmp_path / "b.txt", b"text")
    with pytest.raises(BadInputError) as caught:
        load_prompts(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'b.txt'}:1: duplicate id 'b', used before in {tmp_path / 'a.jsonl'}:2; "
        "give every prompt an id of its own"
    )


def test_defaults_and_byte_order_mark(tmp_path: Path) -> None:
    line = f'{{"messages": [{MESSAGE}]}}\r\n'.encode()
    file = write(tmp_path / "mine.jsonl", b"\xef\xbb\xbf" + line + b"\n" + line)
    messages = (ChatMessage(role="user", content="hi"),)
    assert load_prompts(file) == tuple(
        Prompt(id=f"mine-{n}", category="user", messages=messages) for n in (1, 3)
    )
    # A text is taken as it stands.
    file = write(tmp_path / "mine.txt", b"\xef\xbb\xbf  a\r\n\r\nb\xe2\x80\xa8c\n")
    assert load_prompts(file) == (Prompt(id="mine", category="user", text="  a\r\n\r\nb\u2028c\n"),)


# Surrogates cannot be written as UTF-8.
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
contents = names.filter(str.strip)
messages = st.builds(
    ChatMessage, role=st.sampled_from(["system", "user", "assistant", "tool"]), content=contents
)
prompts = st.builds(Prompt, id=names, category=names, text=contents) | st.builds(
    Prompt, id=names, category=names, messages=st.lists(messages, min_size=1).map(tuple)
)


def as_line(prompt: Prompt, *, ascii_only: bool) -> str:
    fields: dict[str, object] = {"id": prompt.id, "category": prompt.category}
    if prompt.text is not None:
        fields["prompt"] = prompt.text
    else:
        fields["messages"] = [{"role": m.role, "content": m.content} for m in prompt.messages]
    return json.dumps(fields, ensure_ascii=ascii_only)


@given(
    written=st.lists(prompts, min_size=1, unique_by=lambda prompt: prompt.id),
    ascii_only=st.booleans(),
    separator=st.sampled_from(["\n", "\r\n", "\n\n \n"]),
)
def test_valid_prompts_load_back_equal(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[Prompt],
    ascii_only: bool,  # noqa: FBT001 - hypothesis passes it by name
    separator: str,
) -> None:
    lines = [as_line(prompt, ascii_only=ascii_only) for prompt in written]
    file = tmp_path_factory.mktemp("round-trip") / "prompts.jsonl"
    write(file, separator.join(lines).encode())
    assert load_prompts(file) == tuple(written)


def test_the_suite_goes_round_the_categories_with_distinct_conversations() -> None:
    suite = builtin_suite()
    assert len(suite) >= 16
    assert [one.category for one in suite] == [*CATEGORIES] * (len(suite) // len(CATEGORIES))
    assert all(prompt.messages and prompt.messages[-1].role == "user" for prompt in suite)
    assert len({one.id for one in suite}) == len({one.messages for one in suite}) == len(suite)
