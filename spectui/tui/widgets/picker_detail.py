"""The lines below the lists: all that is known of the highlighted row, nothing cut off."""

from spectui.models.facts import ModelFacts
from spectui.models.files import FoundModel
from spectui.models.ranking import DraftOption, ModelInspected, unloadable
from spectui.models.sizes import bytes_text, count_text, counted
from spectui.tui.glyphs import Glyphs
from spectui.tui.widgets.picker_choices import DemoChoice, PresetChoice, RecentChoice
from spectui.tui.widgets.picker_list import Entry
from spectui.tui.widgets.picker_text import visible


def detail(entry: Entry | None, inspected: ModelInspected | None, glyphs: Glyphs) -> str:
    """Describe a row.

    Args:
        entry: The row, None without one.
        inspected: What the inspection told of the target itself, if it did.
        glyphs: The characters to write with.
    """
    match entry:
        case None:
            return ""
        case Entry(value=FoundModel() as model):
            return _target_line(model, inspected, glyphs)
        case Entry(value=DraftOption() as option):
            return _draft_line(option, glyphs)
        case _:
            return visible(entry.about, glyphs)


def path_of(value: object) -> str:
    """Return the files that a row stands for, empty if it stands for none."""
    match value:
        case FoundModel():
            return str(value.path)
        case DraftOption():
            return str(value.model.path)
        case RecentChoice():
            target, draft = value.recent.target, value.recent.draft
            return f"{target} + {draft}" if draft else str(target)
        case _:
            return ""


def hint(value: object) -> str:
    """Say why the value of a target's row leaves no draft to choose."""
    if isinstance(value, PresetChoice | RecentChoice | DemoChoice):
        return "Brings its own draft."
    return ""


def problem(model: FoundModel, inspected: ModelInspected | None) -> str | None:
    """Say why a model cannot be a target, None if nothing speaks against it so far."""
    return unloadable(model) or (None if inspected is None else inspected.reason)


def _target_line(model: FoundModel, inspected: ModelInspected | None, glyphs: Glyphs) -> str:
    if (reason := problem(model, inspected)) is not None:
        return f"Cannot be the target: {visible(reason, glyphs)}."
    files = "" if model.n_shards == 1 else f" in {counted(model.n_shards, 'file')}"
    known = inspected.facts if inspected is not None else None
    facts = "" if known is None else f", {_facts(known, glyphs)}"
    return f"{bytes_text(model.size_bytes)}{files}{facts}. Enter goes on to its draft."


def _draft_line(option: DraftOption, glyphs: Glyphs) -> str:
    if option.reason is not None:
        return f"Cannot be the draft: {visible(option.reason, glyphs)}."
    if option.facts is None:
        return "Is being checked. It can be chosen already: loading it checks it, too."
    if option.memory_bytes is None:
        memory = f"{bytes_text(option.model.size_bytes)} of memory and its cache"
    else:
        memory = f"{bytes_text(option.memory_bytes)} of memory with its cache"
    return f"Fits: {memory}, {_facts(option.facts, glyphs)}"


def _facts(facts: ModelFacts, glyphs: Glyphs) -> str:
    parts = [visible(facts.arch, glyphs)]
    if facts.n_params:
        parts.append(f"{count_text(facts.n_params)} parameters")
    parts.append(counted(facts.n_layers, "layer"))
    if facts.n_experts:
        parts.append(counted(facts.n_experts, "expert"))
    parts.append(f"trained for {counted(facts.n_ctx_train, 'token')}")
    return ", ".join(parts)
