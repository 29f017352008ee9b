"""Chat templates: a conversation to the text that the model was trained on."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NoReturn

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from spectui.errors import BadInputError
from spectui.llama.model import Model


def render_chat(model: Model, messages: Sequence[tuple[str, str]]) -> str:
    """Render (role, content) pairs with the model's own template, ready for its answer.

    The template comes with the model file, hence the sandbox. The environment is the one that
    Hugging Face's ``apply_chat_template`` gives templates, which they are written for.

    Raises:
        BadInputError: the model has no template, or its template refuses the messages.
    """
    name = model.options.path.name
    source = model.chat_template
    if source is None:
        raise BadInputError(
            f"{name} has no chat template; give raw text as 'prompt' instead of 'messages'"
        )
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    # Jinja's own would escape for HTML.
    environment.filters["tojson"] = _json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(form)
    vocabulary = model.vocabulary
    try:
        return environment.from_string(source).render(
            messages=[{"role": role, "content": content} for role, content in messages],
            add_generation_prompt=True,
            # Where the tokenizer adds BOS itself, a second one must not come from the template.
            bos_token="" if vocabulary.bos.added else _text(model, vocabulary.bos.id),
            eos_token=_text(model, vocabulary.eos.id),
        )
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise BadInputError(
            f"the chat template of {name} refuses the messages ({error}); "
            "change their roles, or give raw text as 'prompt'"
        ) from error


def _text(model: Model, token: int) -> str:
    return model.vocabulary.piece(token, special=True).decode() if token >= 0 else ""


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
