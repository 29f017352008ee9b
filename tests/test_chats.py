"""Exports of chats, each in the shape that its program writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.errors import BadInputError
from spectui.prompts import AnsweredPrompt
from spectui.prompts.chats import Chats, load_chats

QUESTION, ANSWER = "What is a draft?", "A small model."
TALK = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]


def read(tmp_path: Path, *records: object, lines: bool = False, name: str = "chats.data") -> Chats:
    """Chats of a file with one value, or with a value on each line."""
    path = tmp_path / name
    text = "\n".join(map(json.dumps, records)) if lines else json.dumps(records[0])
    path.write_text(text, encoding="utf-8")
    return load_chats([path])


def told(prompt: AnsweredPrompt) -> tuple[list[tuple[str, str]], str, str | None]:
    """Messages, answer and model of a prompt."""
    messages = [(one.role, one.content) for one in prompt.messages]
    return messages, prompt.answer, prompt.model


def node(name: str, parent: str | None, role: str, content: str, **more: object) -> dict[str, Any]:
    return {
        "id": name,
        "parentId": parent,
        "parent": parent,
        "role": role,
        "content": content,
    } | more


def open_webui(**more: object) -> list[dict[str, Any]]:
    tree = [
        node("a", None, "user", QUESTION),
        node("b", "a", "assistant", "The other branch."),
        node("c", "a", "assistant", ANSWER, model="mine:8b"),
    ]
    history = {"messages": {one["id"]: one for one in tree}, "currentId": "c"}
    return [{"id": "1", "chat": {"title": "Drafts", "history": history, **more}}]


def lm_studio() -> dict[str, Any]:
    text = [{"type": "text", "text": ANSWER}]
    thought = [{"type": "text", "text": "Hm."}]
    steps = [
        {"type": "contentBlock", "style": {"type": "thinking"}, "content": thought},
        {"type": "contentBlock", "content": text, "genInfo": {"identifier": "mine"}},
        {"type": "debugInfoBlock", "debugInfo": "x"},
    ]
    user = {"type": "singleStep", "role": "user", "content": [{"type": "text", "text": QUESTION}]}
    other = {"type": "singleStep", "role": "assistant", "content": thought}
    return {
        "name": "Drafts",
        "perChatPredictionConfig": {
            "fields": [{"key": "llm.prediction.systemPrompt", "value": "Be short."}]
        },
        "messages": [
            {"versions": [user], "currentlySelected": 0},
            {
                "versions": [other, {"type": "multiStep", "role": "assistant", "steps": steps}],
                "currentlySelected": 1,
            },
        ],
    }


def of_llama_server() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    conv = {"id": "1", "name": "Drafts", "currNode": "c", "lastModified": 1}
    rows = [
        node("r", None, "system", "", type="root"),
        node("a", "r", "user", QUESTION, type="text"),
        node("c", "a", "assistant", ANSWER, type="text", reasoningContent="Hm.", model="m.gguf"),
        node("d", "a", "assistant", "The other branch.", type="text"),
    ]
    return conv, rows


def test_open_webui_the_branch_on_screen(tmp_path: Path) -> None:
    (one,) = read(tmp_path, open_webui(params={"system": "Be short."})).prompts
    assert told(one) == ([("system", "Be short."), ("user", QUESTION)], ANSWER, "mine:8b")
    assert one.id == "chat-1-1"
    assert one.name == "chat 'Drafts', answer 1"


def test_open_webui_without_a_tree(tmp_path: Path) -> None:
    (one,) = read(tmp_path, [{"chat": {"messages": TALK}}]).prompts
    assert told(one) == ([("user", QUESTION)], ANSWER, None)


def test_lm_studio_the_selected_version(tmp_path: Path) -> None:
    (one,) = read(tmp_path, lm_studio()).prompts
    written = f"<think>\nHm.\n</think>\n\n{ANSWER}"
    assert told(one) == ([("system", "Be short."), ("user", QUESTION)], written, "mine")


@pytest.mark.parametrize("lines", [False, True])
def test_the_page_of_llama_server(tmp_path: Path, lines: bool) -> None:  # noqa: FBT001 - pytest's
    conv, rows = of_llama_server()
    records: list[Any] = [[{"conv": conv, "messages": rows}]]
    if lines:
        records = [{"harness": "x", "type": "session", **conv}]
        records += [{"type": "message", "message": row} for row in rows]
    (one,) = read(tmp_path, *records, lines=lines).prompts
    assert told(one) == ([("user", QUESTION)], f"<think>\nHm.\n</think>\n\n{ANSWER}", "m.gguf")


def test_sillytavern_without_its_greeting(tmp_path: Path) -> None:
    chats = read(
        tmp_path,
        {"user_name": "You", "character_name": "Ada", "chat_metadata": {}},
        {"name": "Ada", "is_user": False, "is_system": False, "mes": "Hello there."},
        {"name": "You", "is_user": True, "is_system": False, "mes": QUESTION},
        {"name": "x", "is_user": False, "is_system": True, "mes": "hidden"},
        {"name": "Ada", "is_user": False, "mes": ANSWER, "extra": {"model": "mine"}},
        lines=True,
    )
    (one,) = chats.prompts
    assert told(one) == ([("assistant", "Hello there."), ("user", QUESTION)], ANSWER, "mine")
    assert chats.left_out == {"without a question": 1}


def test_sharegpt(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": ANSWER}]
    chats = read(tmp_path, [{"id": "x", "conversations": turns * 2}])
    first, second = chats.prompts
    assert told(first) == ([("user", QUESTION)], ANSWER, None)
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]


@pytest.mark.parametrize("shape", ["flat", "apart", "body", "messages"])
def test_logs_of_requests(tmp_path: Path, shape: str) -> None:
    request = {"model": "mine", "messages": TALK[:1]}
    response = {"model": "mine", "choices": [{"index": 0, "message": TALK[1]}]}
    records: dict[str, dict[str, Any]] = {
        "flat": {**request, **response},
        "apart": {"request": request, "response": response},
        "body": {"request": {"body": request}, "response": {"body": response}},
        "messages": {"messages": TALK, "model": "mine"},
    }
    record = records[shape]
    chats = read(tmp_path, record, record | {"id": "again"}, lines=True)
    (one,) = chats.prompts
    assert told(one) == ([("user", QUESTION)], ANSWER, "mine")
    assert chats.left_out == {"to the same prompt": 1}


@pytest.mark.parametrize(
    "text",
    [
        f"<think>Hm.</think>\n\n{ANSWER}",
        f'<details type="reasoning" done="1"><summary>T</summary>\n&gt; Hm.\n</details>\n{ANSWER}',
        f'<details type="reasoning">\n<summary>T</summary>\n> Hm.\n</details>\n{ANSWER}',
    ],
)
def test_reasoning_is_written_but_no_part_of_a_later_prompt(tmp_path: Path, text: str) -> None:
    talk = [TALK[0], {"role": "assistant", "content": text}, *TALK]
    first, second = read(tmp_path, {"messages": talk}).prompts
    assert told(first)[1] == f"<think>\nHm.\n</think>\n\n{ANSWER}"
    assert told(second)[0][1] == ("assistant", ANSWER)


def test_what_no_prompt_can_be_made_of_is_counted(tmp_path: Path) -> None:
    picture = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "x"}}]
    called = '<details type="tool_calls" done="true"></details>\nFound.'
    chats = read(
        tmp_path,
        {"messages": TALK},
        {"messages": [TALK[0], {"role": "assistant", "content": None}]},
        {"messages": [{"role": "user", "content": picture}, TALK[1]]},
        {"messages": [*TALK, {"role": "tool", "content": "4"}, TALK[1]]},
        {"messages": [TALK[0], {"role": "assistant", "content": called}]},
        lines=True,
    )
    assert len(chats.prompts) == 1
    assert chats.left_out == {
        "to the same prompt": 1,
        "without text": 1,
        "with images or files": 1,
        "with tools": 2,
    }


def test_a_file_of_several_forms_is_read_whole_and_the_rest_is_counted(tmp_path: Path) -> None:
    conv, rows = of_llama_server()
    shared = {"conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]}
    records = [
        {"messages": [TALK[0], {"role": "assistant", "content": "z"}]},
        {"event": "started"},
        7,
        *open_webui(),
        lm_studio(),
        {"conv": conv, "messages": rows},
        {"name": "Ada", "is_user": False, "mes": "Hello there."},
        shared,
    ]
    chats = read(tmp_path, records)
    answers = [one.answer.split("\n")[-1] for one in chats.prompts]
    assert sorted(answers) == [ANSWER, ANSWER, ANSWER, "y", "z"]
    assert chats.left_out == {"in no known form": 2, "without a question": 1}


def test_a_damaged_chat_is_left_out(tmp_path: Path) -> None:
    tree = {"chat": {"title": "x", "history": {"messages": {"m1": None}, "currentId": "m1"}}}
    steps: dict[str, object] = {"messages": [{"versions": []}]}
    other = [{"role": "user", "content": "And a target?"}, TALK[1]]
    chats = read(tmp_path, [{"messages": TALK}, tree, steps, {"messages": other}])
    assert [one.id for one in chats.prompts] == ["chat-1-1", "chat-2-1"]
    assert chats.left_out == {"damaged, the first chat 2 of chats.data": 2}


def test_chats_take_turns(tmp_path: Path) -> None:
    other = [{"role": "user", "content": "And a target?"}, TALK[1]]
    chats = read(tmp_path, {"messages": TALK * 3}, {"messages": other}, lines=True)
    assert [one.id for one in chats.prompts] == ["chat-1-1", "chat-2-1", "chat-1-2", "chat-1-3"]


def test_a_folder_of_exports(tmp_path: Path) -> None:
    read(tmp_path, {"messages": TALK}, name="a.json")
    (tmp_path / "below").mkdir()
    read(tmp_path, open_webui(params={"system": "Be short."}), name="below/b.json")
    for name in (".hidden.json", "below/._b.json", "export.json.bak"):
        (tmp_path / name).write_text("x")
    (tmp_path / "below" / "settings.json").write_text('{"theme": "dark"}')
    chats = load_chats([tmp_path])
    assert [one.id for one in chats.prompts] == ["chat-1-1", "chat-2-1"]
    assert chats.left_out == {"files of a folder that are no exports of chats": 1}


def test_a_folder_without_exports(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    said = r"there is no answer with text alone \(1 files of a folder that are no exports of chats"
    with pytest.raises(BadInputError, match=said):
        load_chats([tmp_path])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[{"a": "b',
            r"x\.json:1: invalid JSON .*; export the chats again: spectui reads the JSON",
        ),
        ('{"a": 1}', "is no export of chats; spectui reads the JSON of Open WebUI"),
        ("[]", "is no export"),
        (
            '{"messages": [{"role": "user", "content": "x"}]}',
            "there is no answer in it; give other",
        ),
        (
            '{"messages": [{"role": "assistant", "content": "x"}]}',
            r"there is no answer with text alone \(1 without a question\) in it; give other chats",
        ),
        ('{"conversations": [1]}', r"text alone \(1 damaged, the first chat 1 of x.json\) in it"),
        ('{"messages": 3}', "is no export"),
        ('{"messages": [{"role": "user", "content": {"a": 1}}]}', "damaged"),
        ('{"messages": [{"role": "user", "content": 3}]}', "damaged"),
    ],
)
def test_other_files_are_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match=said):
        load_chats([path])


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(
        BadInputError, match=r"holds no \.json or \.jsonl file; put exports into it"
    ):
        load_chats([tmp_path])


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"x\.json: no such file"):
        load_chats([tmp_path / "x.json"])


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("messages", "role", "content", "chat", "history", "conv", "versions", "from"),
                    *("value", "conversations", "mes", "is_user", "choices", "request", "extra"),
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(value=_VALUES)
def test_any_json_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    try:
        read(tmp_path_factory.mktemp("any"), value)
    except BadInputError:
        return
