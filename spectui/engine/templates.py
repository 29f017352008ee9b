"""Chat templates of models, rendered in a bounded child process."""

from collections.abc import Sequence

from spectui.children import Child, ProtocolError
from spectui.closing import Closing
from spectui.errors import BadInputError
from spectui.llama.model import Model
from spectui.options.setup import OWN_TEMPLATE, Rendering

_LONGEST_REASON = 300
_CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The only template that llama-server knows by name where it uses Jinja."""


class Templates(Closing):
    """Renders with a child that is started with the first template, and anew where one ends it."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._child: Child | None = None

    def render(
        self, model: Model, messages: Sequence[tuple[str, str]], rendering: Rendering = OWN_TEMPLATE
    ) -> str:
        """Render (role, content) pairs as llama-server does, ready for the model's answer.

        Raises:
            BadInputError: there is no template, or it is broken or refuses the messages, or takes
                more time or memory than there is for one.
        """
        name = model.options.path.name
        source = rendering.template or model.chat_template
        source = _CHATML if source == "chatml" else source
        if source is None:
            raise BadInputError(
                f"{name} has no chat template; give raw text as 'prompt' instead of 'messages'"
            )
        bos, eos = model.vocabulary.bos, model.vocabulary.eos
        tokens = {"bos_token": _text(model, bos.id), "eos_token": _text(model, eos.id)}
        answer = self._ask(
            {
                "source": source,
                "messages": [{"role": role, "content": content} for role, content in messages],
                "arguments": rendering.arguments,
                "tokens": tokens,
            }
        )
        if "text" not in answer:
            why = answer.get("refused", "it comes to no end within its limits")
            why = why if len(why) <= _LONGEST_REASON else f"{why[: _LONGEST_REASON - 3]}..."
            raise BadInputError(
                f"the chat template of {name} refuses the messages ({why}); change their roles, "
                "give raw text as 'prompt', or a command with --chat-template-file"
            )
        # What the tokenizer adds itself must not come from the template a second time.
        text = answer["text"]
        text = text.removeprefix(tokens["bos_token"]) if bos.added else text
        return text.removesuffix(tokens["eos_token"]) if eos.added else text

    def close(self) -> None:
        """End the child. May be called again."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _ask(self, question: dict[str, object]) -> dict[str, str]:
        """Ask the child; empty where the template has ended it."""
        if self._child is None:
            self._child = Child("spectui.engine.chat_template", (dict,))
        try:
            self._child.channel.send(question)
            answer: dict[str, str] = self._child.channel.receive()
        except (EOFError, OSError, ProtocolError):
            self.close()
            return {}
        return answer


def _text(model: Model, token: int) -> str:
    if token < 0:
        return ""
    return model.vocabulary.piece(token, special=True).decode(errors="replace")
