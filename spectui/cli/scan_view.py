"""Text output of ``spectui models scan``: a table with notes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.padding import Padding
from rich.text import Text

from spectui.cli.drawing import drawn, wrapped
from spectui.cli.findings import Findings
from spectui.cli.scan_table import drafts_table, models_table, names_of, shown
from spectui.cli.shell import tune_command
from spectui.format import counted, percent_text
from spectui.models.facts import ModelFacts
from spectui.models.ranking import GOOD_SHARE, DraftOption, read_share

_N_PASSED_OVER = 10
"""Maximum number of sentences on files that are no models, of which a folder may hold thousands."""


def scan_view(found: Findings) -> str:
    """Draw all models that were found."""
    return "\n\n".join(filter(None, (*_models(found), *_repeats(found), _passed_over(found))))


def _models(found: Findings) -> Iterator[str]:
    if not found.models:
        yield wrapped(_nothing(found))
    elif found.target is None:
        yield models_table(found)
        yield _reasons("Cannot be used:", found)
    else:
        yield wrapped(f"Drafts for {shown(found.target.path.name)}")
        if found.doubt is not None:
            yield wrapped(f"Mind that {found.doubt}.")
        if found.fitting:
            yield drafts_table(found, found.target)
        yield _advice(found)
        yield _reasons("Not for this target:", found)


def _nothing(found: Findings) -> str:
    if found.interrupted:
        return "Interrupted before a model was read."
    what = "No GGUF model" if found.target is None else "No GGUF model but the target"
    if not found.folders:
        where = "none of the folders exists in which models usually lie"
        return f"{what} was found: {where}; give the folder of yours."
    places = ", ".join(shown(str(folder)) for folder in found.folders)
    return f"{what} was found in {places}; give the folder of yours."


def _advice(found: Findings) -> str:
    target, first = found.target, found.first
    if target is None or first is None:
        return wrapped(f"Of {counted(len(found.models), 'model')} none fits.")
    name = names_of(found.models)[first.model.path]
    sentence = f"Try {name} first{_cost(target, first)} Measure what it brings:"
    return f"{wrapped(sentence)}\n{tune_command(found)}"


def _cost(target: ModelFacts, draft: DraftOption) -> str:
    """The cost of a token of the draft, as far as bytes tell, as a continuation of its name."""
    share = read_share(target, draft.facts)
    if share is None:
        return "."
    small, large = GOOD_SHARE
    doubt = ""
    if share > large:
        doubt = " That is much for a draft: it pays only where nearly all of it is accepted."
    elif share < small:
        doubt = " That is little for a draft: it may seldom guess what the target says."
    return f": a token of it reads {percent_text(share, 1)} of what one of the target reads.{doubt}"


def _reasons(title: str, found: Findings) -> str:
    names = names_of(found.models)
    unfit = (option for option in found.models if option.reason is not None)
    return _notes(
        title,
        [
            f"{names[option.model.path]}: "
            f"{shown((option.reason or '').removeprefix(f'{option.model.path} '))}"
            for option in unfit
        ],
    )


def _repeats(found: Findings) -> Iterator[str]:
    copies = tuple(tuple(model.path for model in models) for models in found.copies)
    yield _notes("Equal in name and size, most likely copies:", _rows(copies))
    yield _notes("Links to one file, listed under the first of its paths:", _rows(found.links))


def _rows(groups: Sequence[Sequence[Path]]) -> tuple[str, ...]:
    return tuple(", ".join(shown(str(path)) for path in paths) for paths in groups)


def _passed_over(found: Findings) -> str:
    sentences = [shown(reason) for reason in found.passed_over[:_N_PASSED_OVER]]
    n_more = len(found.passed_over) - len(sentences)
    more = [f"and {n_more} more; --json names all"] if n_more else []
    return _notes("Passed over:", [*sentences, *more])


def _notes(title: str, sentences: Sequence[str]) -> str:
    """Draw notes below a title; nothing if there are none."""
    if not sentences:
        return ""
    # Folded by cells, and paths anywhere: nothing is wider than the page.
    return drawn(title, *(Padding(Text(sentence), (0, 0, 0, 2)) for sentence in sentences))
