"""A server's model and settings in words."""

from pathlib import PurePath

from spectui.models.sizes import bytes_text, count_text, counted
from spectui.server.attached.sample import ServerFacts


def model_name(facts: ServerFacts) -> str:
    """Return the shortest name that the server gives its model."""
    if facts.is_router:
        return "a router"
    names = [name for name in (facts.alias, facts.model_path) if name]
    # Without a name of its own, the alias is the file's path.
    found = next(iter(names), None) or next(iter(facts.models), None)
    return "a model without a name" if found is None else file_stem(found)


def file_stem(name: str) -> str:
    """Return a path's last part without ``.gguf``; other names as they stand."""
    if not name.endswith(".gguf"):
        return name
    return PurePath(name.replace("\\", "/")).name.removesuffix(".gguf")


def model_text(facts: ServerFacts) -> str:
    """Return size, quantization and context, as far as they are told."""
    if facts.is_router:
        return f"{counted(len(facts.models), 'model')} listed"
    return (
        ", ".join(filter(None, (*model_facts(facts), *context_facts(facts)))) or "it says no more"
    )


def model_facts(facts: ServerFacts) -> tuple[str, ...]:
    """Of the weights."""
    parameters = None if facts.n_params is None else f"{count_text(facts.n_params)} parameters"
    size = None if facts.size_bytes is None else bytes_text(facts.size_bytes)
    return tuple(filter(None, (parameters, facts.quantization, size)))


def context_facts(facts: ServerFacts) -> tuple[str, ...]:
    """Of slots and context."""
    slots = None if facts.n_slots is None else counted(facts.n_slots, "slot")
    context = None if facts.n_ctx is None else f"{facts.n_ctx} tokens of context"
    if slots is not None and context is not None:
        return (f"{slots} with {context}{' each' if facts.n_slots != 1 else ''}",)
    return tuple(filter(None, (slots, context)))
