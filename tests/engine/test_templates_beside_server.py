"""Prompts are those of the real llama-server's ``/apply-template``."""

from pathlib import Path

import pytest

from spectui.engine.templates import Templates
from spectui.errors import BadInputError, ServerError
from spectui.llama.model import Model
from spectui.options.setup import ModelOptions, Rendering
from spectui.server.process import LlamaServer
from tests.support.models import Tiny, TinyPath

pytest_plugins = ["tests.support.fixtures"]
pytestmark = [pytest.mark.server, pytest.mark.usefixtures("no_process_is_left")]

TEMPLATES = sorted((Path(__file__).parents[1] / "data" / "chat_templates").glob("*.jinja"))
"""In the style of public models."""
ANSWER = "<think>\nHm.\n</think>\n\nYes."
CONVERSATIONS = {
    "a question": (("user", "  What is <b>&'\"é\n"),),
    "with the system's": (("system", "Be brief. "), ("user", "hi")),
    "several turns": (("user", "a"), ("assistant", ANSWER), ("user", "b")),
    "of a developer": (("developer", "Be brief."), ("user", "hi")),
    "of a tool": (("user", "a"), ("assistant", "call"), ("tool", '{"a": 1}')),
    "out of turn": (
        *(("system", "a"), ("user", "b"), ("assistant", "c\n"), ("system", "d")),
        *(("user", "e"), ("user", "f")),
    ),
}
Conversation = tuple[tuple[str, str], ...]


def theirs(server: LlamaServer, conversation: Conversation) -> str | None:
    """The server's prompt; None where the template refuses the conversation."""
    try:
        return server.apply_template([{"role": r, "content": text} for r, text in conversation])
    except ServerError:
        return None


def ours(
    templates: Templates, model: Model, conversation: Conversation, rendering: Rendering
) -> str | None:
    try:
        return templates.render(model, conversation, rendering)
    except BadInputError:
        return None


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
@pytest.mark.parametrize("adds_bos", [False, True])
def test_prompts_are_the_servers(
    llama_server_binary: Path,
    tiny: TinyPath,
    tmp_path: Path,
    template: Path,
    adds_bos: bool,  # noqa: FBT001 - pytest's
) -> None:
    arguments = '{"enable_thinking": false, "reasoning_effort": "low"}' if adds_bos else "{}"
    path = tiny(Tiny(add_bos=adds_bos))
    command = ["-m", str(path), "-c", "256", "-np", "1", "-t", "1"]
    command += ["--chat-template-file", str(template), "--chat-template-kwargs", arguments]
    rendering = Rendering(template=template.read_text(), arguments=arguments)
    with (
        LlamaServer(llama_server_binary, command, log_path=tmp_path / "log") as server,
        Model(ModelOptions(path=path)) as model,
        Templates() as templates,
    ):
        wanted = {name: theirs(server, one) for name, one in CONVERSATIONS.items()}
        found = {
            name: ours(templates, model, one, rendering) for name, one in CONVERSATIONS.items()
        }
    assert found == wanted
    assert found["a question"] is not None
