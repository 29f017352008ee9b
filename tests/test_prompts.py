"""Prompts: every bad input is named by file, line and reason; everything valid loads back equal."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.prompts import ChatMessage, Prompt, PromptFile, builtin_suite, load_prompts
from tests.support.tables import table

CATEGORIES = ["code", "structured", "chat", "prose", "math", "extraction", "summarisation"]
CATEGORIES += ["long-context"]
GOOD = b'{"id": "good", "prompt": "hello"}'
MESSAGE = b'{"role": "user", "content": "hi"}'
HI = ChatMessage(role="user", content="hi")


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


BAD_LINES = {
    b'{"prompt": "a"': "invalid JSON (Expecting ',' delimiter: column 15); mend or drop the",
    b'{"prompt": "\\ud800 x"}': r"a \ud800 to \udfff without its other half is no",
    b"[" * 100_000: "invalid JSON (nested too deeply",
    b"9" * 5_000: "invalid JSON (nested too deeply, or a number too long)",
    b"7": "neither an object nor text",
    b'{"prompt": 7}': "prompt is no text",
    b'{"messages": 7, "temp": 1}': "no prompt among messages, temp",
    b"{}": "no prompt among no keys",
    b'{"messages": [{"role": "User", "content": "a"}]}': "unknown role 'User' in message",
    b'{"messages": [{"content": "a"}]}': "unknown role None in message 1",
    b'{"messages": [{"role": "user", "content": {"a": 1}}]}': "message 1 is none of role and text",
    b'{"messages": ["a"]}': "message 1 is none of role and text",
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
        (b"\xff\xfea\x00\n\x00b", 2, "not UTF-16"),
    ):
        file = write(tmp_path / "mine.txt", data)
        with pytest.raises(BadInputError, match=rf"mine\.txt:{line}: .*{reason}"):
            load_prompts(file)


def test_no_prompts_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "sub.jsonl").mkdir()
    write(tmp_path / "empty.jsonl", b"\xef\xbb\xbf\n\r\n  \n")
    write(tmp_path / "prompts.yaml", b"a: b")
    write(tmp_path / "prompts.csv", b"a,b\n1,2")
    write(tmp_path / "broken.json", b'[\n{"prompt": "a"},\n{]')
    write(tmp_path / "cut.json", b'{\n"prompt":\n')
    for name, reason in (
        ("missing.jsonl", "missing.jsonl: no such file; give a file or a folder of prompts"),
        ("x" * 300 + ".txt", "cannot be read .File name too long.; give a file"),
        ("empty.jsonl", r"empty\.jsonl contains no prompts; write"),
        ("prompts.yaml", r"prompts\.yaml is not a prompt file; give a \.jsonl"),
        ("prompts.csv", r"prompts\.csv:1: no column prompt among a, b; name one so"),
        ("cut.json", r"cut\.json:3: invalid JSON \(Expecting value: column 1\)"),
        ("broken.json", r"broken\.json:3: invalid JSON \(.*column 2\)"),
        ("folder", r"holds no \.jsonl, .* file; put"),
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
    write(tmp_path / ".hidden.txt", b"not read")
    write(tmp_path / "._a.jsonl", b"\xff")
    assert [prompt.id for prompt in load_prompts(tmp_path).prompts] == ["a", "b-1", "b-3", "c"]


def test_ids_that_clash_get_a_number(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", b"prompt\nw\n")
    write(tmp_path / "a.jsonl", b'\n"x"\n' + lines({"id": "b", "prompt": "y"}))
    write(tmp_path / "b.txt", b"text")
    write(
        tmp_path / "c.jsonl",
        lines(*({"question_id": one, "turns": ["z"]} for one in (8, 8, "8-2"))),
    )
    ids = [prompt.id for prompt in load_prompts(tmp_path).prompts]
    assert ids == ["a-2", "a-2-2", "b", "b-2", "8", "8-2", "8-2-2"]


def test_a_csv_that_is_none_is_refused_by_the_line_where_its_row_begins(tmp_path: Path) -> None:
    for data, line, reason in (
        (b'prompt\nhi\n"never closed\nhello\n', 3, "unexpected end of data"),
        (b'"prompt\nhi\n', 1, "unexpected end of data"),
        (b'id;prompt\na;"b\n";"c" d\n', 2, "';' expected after"),
        (b"id,prompt\n1,hi, you\n", 2, "3 cells in 2 columns; put quotes around text with ','"),
    ):
        file = write(tmp_path / "a.csv", data)
        with pytest.raises(BadInputError, match=rf"a\.csv:{line}: .*{reason}"):
            load_prompts(file)


@pytest.mark.parametrize("separator", list(",;\t"))
def test_a_csv_has_the_separator_of_its_header(tmp_path: Path, separator: str) -> None:
    rows = [["category", "prompt"], ["x", '"a, b; c\n|\t d"'], ["", "e"]]
    text = "\r\n".join(map(separator.join, rows))
    found = load_prompts(write(tmp_path / "a.csv", text.encode())).prompts
    assert [(one.category, one.text) for one in found] == [("x", "a, b; c\n|\t d"), ("user", "e")]


def test_a_cell_of_a_csv_may_be_long(tmp_path: Path) -> None:
    long = "word " * 30_000
    [prompt] = load_prompts(write(tmp_path / "a.csv", f'prompt\n"{long}"\n'.encode())).prompts
    assert prompt.text == long


def test_defaults_and_byte_order_mark(tmp_path: Path) -> None:
    line = b'{"messages": [%b]}\r\n' % MESSAGE
    file = write(tmp_path / "mine.jsonl", b"\xef\xbb\xbf" + line + b"\n" + line)
    assert load_prompts(file).prompts == tuple(
        Prompt(id=f"mine-{n}", category="user", messages=(HI,)) for n in (1, 3)
    )
    # A text is taken as it stands.
    file = write(tmp_path / "mine.txt", b"\xef\xbb\xbf  a\r\n\r\nb\xe2\x80\xa8c\n")
    (found,) = load_prompts(file).prompts
    assert found == Prompt(id="mine", category="user", text="  a\r\n\r\nb\u2028c\n")


# Surrogates cannot be written as UTF-8.
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
contents = names.filter(str.strip)
messages = st.builds(
    ChatMessage,
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    content=contents,
)
conversations = st.lists(messages).map(lambda found: (*found, HI))
prompts = st.builds(Prompt, id=names, category=names, text=contents) | st.builds(
    Prompt, id=names, category=names, messages=conversations
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
    assert load_prompts(file) == PromptFile(prompts=tuple(written))


def lines(*records: object) -> bytes:
    return "\n".join(map(json.dumps, records)).encode()


QUESTION = {"role": "user", "content": "hi"}
TOLD = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]
PARTS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
FORMS: dict[str, tuple[str, bytes, list[str], str, str | None]] = {
    "text lines": ("a.jsonl", lines("hi", "ho"), ["hi", "ho"], "a-1", None),
    "an array": ("a.json", b'\n[\n"hi",\n{"prompt": "ho"}]', ["hi", "ho"], "a-1", None),
    "one object": ("a.json", b'\n{"prompt":\n"hi"}', ["hi"], "a-2", None),
    "lines in a .json": ("a.json", lines({"prompt": "hi"}, "ho"), ["hi", "ho"], "a-1", None),
    "UTF-16": ("a.jsonl", '{"prompt": "hi"}\n'.encode("utf-16"), ["hi"], "a-1", None),
    "Markdown": ("a.md", b"# x\n- y\n", ["# x\n- y\n"], "a", "1 prompt of a.md: its 2 lines"),
    "turns": (
        "a.jsonl",
        lines({"question_id": 81, "category": "x", "turns": ["hi", "and"], "reference": []}),
        ["user: hi"],
        "81",
        "1 prompt of a.jsonl: the first of turns; passed over: reference",
    ),
    "ShareGPT": (
        "a.json",
        json.dumps([{"id": "s0", "conversations": TOLD}, {"conversations": []}]).encode(),
        ["user: hi"],
        "s0",
        "1 prompt of a.json: without the last answer; 1 left out, the first {file}, item 2: no",
    ),
    "a batch": (
        "a.jsonl",
        lines({"custom_id": "r0", "url": "/v1", "body": {"model": "m", "messages": [QUESTION]}}),
        ["user: hi"],
        "r0",
        "1 prompt of a.jsonl: passed over: url, model",
    ),
    "a log": (
        "a.jsonl",
        lines({"request": {"body": {"messages": [QUESTION]}}, "response": {"choices": []}}),
        ["user: hi"],
        "a-1",
        "1 prompt of a.jsonl: passed over: response",
    ),
    "messages with more keys, and without text": (
        "a.jsonl",
        lines(
            {"id": 7, "prompt": "hi", "messages": [{"role": "system", "content": ""}, QUESTION]},
            {"messages": [{"role": "developer", "content": PARTS, "name": "x"}, QUESTION]},
        ),
        ["user: hi", "developer: a\nb\nuser: hi"],
        "7",
        "2 prompts of a.jsonl: without empty system messages; passed over: prompt, name",
    ),
    "messages under prompt": ("a.jsonl", lines({"prompt": [QUESTION]}), ["user: hi"], "a-1", None),
    "tools and images among others": (
        "a.jsonl",
        lines({"messages": [QUESTION, CALL, QUESTION]}, {"messages": [IMAGE]}, "hi"),
        ["hi"],
        "a-3",
        "1 prompt of a.jsonl: 2 left out, the first {file}:1: message 2 has tools",
    ),
    "a CSV of one column": ("a.csv", b"prompt\nhi, you\n", ["hi, you"], "a-2", None),
    "empty rows": (
        "a.csv",
        b"id,prompt,x\n1,hi,\n2, ,\n3\n\n4,ho,\n",
        ["hi", "ho"],
        "1",
        "2 prompts of a.csv: passed over: x; 2 left out, the first {file}:3: the prompt is empty",
    ),
    "empty texts": (
        "a.jsonl",
        lines({"prompt": " \n"}, {"messages": [QUESTION, QUESTION | {"content": " "}]}, "hi"),
        ["hi"],
        "a-3",
        "1 prompt of a.jsonl: 2 left out, the first {file}:1: the prompt is empty",
    ),
    "a CSV": (
        "a.csv",
        b'ID,Prompt,Extra\nx,"hi\nho",1\n,hu,2\n',
        ["hi\nho", "hu"],
        "x",
        "2 prompts of a.csv: passed over: extra",
    ),
    "HumanEval": (
        "a.jsonl",
        lines({"task_id": "HumanEval/0", "prompt": "def f():", "a": 1} | dict.fromkeys("bcdefg")),
        ["def f():"],
        "HumanEval/0",
        "1 prompt of a.jsonl: passed over: a, b, c, d, e, f and 1 more",
    ),
}


@table("form", FORMS)
def test_forms_that_people_have(tmp_path: Path, form: str) -> None:
    name, data, texts, first, note = FORMS[form]
    file = write(tmp_path / name, data)
    found = load_prompts(file)
    assert [
        "\n".join(f"{m.role}: {m.content}" for m in one.messages) if one.text is None else one.text
        for one in found.prompts
    ] == texts
    assert found.prompts[0].id == first
    told = "" if note is None else note.format(file=file)
    assert "".join(found.notes).startswith(told)
    assert bool(found.notes) == bool(told)


def test_a_file_without_text_is_refused_by_its_first_line(tmp_path: Path) -> None:
    for message, why in (
        (CALL | {"role": "user"}, "message 1 has tools"),
        (IMAGE, "message 1 has images or files"),
        (CALL, "no question"),
        (QUESTION | {"role": "system"}, "no question"),
        (QUESTION | {"content": ""}, "message 1 is empty"),
    ):
        file = write(tmp_path / "a.jsonl", b"\n" + lines({"messages": [message]}))
        with pytest.raises(BadInputError, match=rf"a\.jsonl:2: {why}; give questions of text"):
            load_prompts(file)


def test_the_suite_goes_round_the_categories_with_distinct_conversations() -> None:
    suite = builtin_suite()
    assert len(suite) >= 16
    assert [one.category for one in suite] == [*CATEGORIES] * (len(suite) // len(CATEGORIES))
    assert all(prompt.messages and prompt.messages[-1].role == "user" for prompt in suite)
    assert len({one.id for one in suite}) == len({one.messages for one in suite}) == len(suite)
