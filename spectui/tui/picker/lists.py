"""The lists of the picker: targets, drafts for one of them, and the details of a row."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from textual.widgets.option_list import Option

from spectui.commands.sources.processes import RunningServer
from spectui.demo import DemoModel
from spectui.display import visible
from spectui.format import bytes_text, count_text, counted
from spectui.live.sessions import Session
from spectui.models.facts import ModelFacts
from spectui.models.files import SIZE, FoundModel, quantisation
from spectui.models.ranking import DraftOption, ModelInspected, assess, rank
from spectui.options.drafters import MTP_KIND
from spectui.presets import Preset
from spectui.tui import draw
from spectui.tui.picker.rows import (
    Entry,
    PickerList,
    columns,
    heading,
    notes,
    short_folder,
)

_NAME, _SIZE, _LABEL = 34, -8, 18
_N_RECENT = 8
_PORT = "8080"
"""Where llama-server listens if its command does not say."""
_NONE = "No GGUF file was found. Type / and the path of your folder, or take the demo pair."
_NONE_MATCHES = (
    "No model has this in its name or folder. Enter looks in a folder whose path this is; Escape "
    "empties the filter."
)
PASTE = "paste a command"
"""Value of the row that asks for one."""


def _entry(value: object, name: str, about: str) -> tuple[str, Entry]:
    line, key = columns((name, _NAME), (about, 0)), f"{type(value).__name__} {name}"
    return f"{name} {about}", Entry(value, line, key, about=about)


def _running_entry(server: RunningServer) -> tuple[str, Entry]:
    command = server.command
    if command is None:
        target, draft, port, about = "not readable", "", "", f"{server.problem}."
    else:
        target = Path(command.value("model") or "no file of a target").stem
        drafts = command.value("model-draft")
        draft = f"with {Path(drafts).stem}" if drafts else "alone"
        port = command.value("port") or _PORT
        about = (
            "Takes over its models and options, to chat with them and to tune them here. Both need "
            f"memory meanwhile. To watch it instead: spectui attach http://127.0.0.1:{port}"
        )
    process = f"process {server.pid}" + (f", port {port}" if port else "")
    line = columns((target, _NAME), (process, 26), (draft, 0))
    entry = Entry(server, line, f"running {server.pid}", about=about, is_dim=command is None)
    return f"{target} {draft} {server.pid}", entry


def _recent_entry(session: Session, index: int) -> tuple[str, Entry]:
    header, prompts = session.header, session.prompts
    draft = f"with {Path(header.draft).stem}" if header.draft else "alone"
    said = prompts[0].strip().partition("\n")[0] if prompts else ""
    when = header.started.astimezone()
    about = f"{when:%Y-%m-%d %H:%M}, {counted(len(prompts), 'turn')}. "
    about += "Starts this pair again and takes the chat up."
    line = columns(
        (Path(header.target).stem, _NAME), (f"{when:%m-%d %H:%M}", 11), (draft, 18), (said, 0)
    )
    return f"{header.target} {header.draft or ''} {said}", Entry(
        session, line, f"recent {index}", about=about
    )


def _model_entry(model: FoundModel) -> tuple[str, Entry]:
    is_unfit = bool(model.missing)
    label, folder = "incomplete" if is_unfit else label_of(model.name), model.path.parent
    line = _model_line(model.name, bytes_text(model.size_bytes), label, short_folder(folder))
    return f"{model.name} {folder}", Entry(model, line, str(model.path), is_dim=is_unfit)


def label_of(name: str) -> str:
    """Parameters and quantisation as far as a model's name tells, such as ``30B-A3B Q4_K_M``."""
    size = SIZE.search(name)
    parts = (size and size[1].upper().replace("X", "x"), quantisation(name))
    return " ".join(part for part in parts if part)


def _model_line(name: str, size: str, label: str, folder: str) -> str:
    return columns((name, _NAME), (size, _SIZE), (label, _LABEL), (folder, 0))


def _goes_on(later: Session, earlier: Session) -> bool:
    return later.entries[: len(earlier.entries)] == earlier.entries


class TargetList(PickerList):
    """Last used pairs, the models found so far, presets and the demo pair."""

    def __init__(self, presets: Sequence[Preset]) -> None:
        """Offer presets; sessions, servers and models are added as they are found."""
        super().__init__(id="targets", markup=False)
        self._recent: tuple[Session, ...] = ()
        self._presets = tuple(presets)
        self._servers: tuple[RunningServer, ...] = ()
        self._models: dict[Path, FoundModel] = {}
        self._words: tuple[str, ...] = ()
        self._is_complete = False
        self._is_stale = False
        """Whether models were found that are not shown yet."""

    def on_mount(self) -> None:
        """Show the presets."""
        self._show()

    @property
    def models(self) -> Sequence[FoundModel]:
        """All models found so far, whatever the filter hides."""
        return tuple(self._models.values())

    def add(self, model: FoundModel) -> bool:
        """Add a model; False if it was there already."""
        if model.path in self._models:
            return False
        self._models[model.path] = model
        self._show_soon()
        return True

    def show_running(self, running: Sequence[RunningServer]) -> None:
        """Offer what these llama-servers run."""
        self._servers = tuple(running)
        self._show_soon()

    def show_recent(self, sessions: Sequence[Session]) -> None:
        """Offer pairs as the last used ones; of a chat that was taken up its last session.

        Args:
            sessions: the stored ones, the newest first.
        """
        kept: list[Session] = []
        for session in sessions:
            if not any(_goes_on(later, session) for later in kept):
                kept.append(session)
        self._recent = tuple(kept[:_N_RECENT])
        self._show_soon()

    def complete(self) -> None:
        """Note that all folders were searched."""
        self._is_complete = True
        self._show_soon()

    def filter(self, text: str) -> None:
        """Show only rows that contain every word of ``text``."""
        self._words = tuple(text.casefold().split())
        self._show()

    def _show_soon(self) -> None:
        """Show what has come once, however much it is until then; at first on mount."""
        if self.is_mounted and not self._is_stale:
            self._is_stale = True
            self.call_later(self._show)

    def _show(self) -> None:
        """Show all rows. The first row stays the highlighted one, and so does any other."""
        self._is_stale = False
        is_first = self.entries[:1] == [self.entry]
        self.show_rows(self._rows(), None if is_first else self.key)

    def _rows(self) -> Iterator[Option]:
        running = [_running_entry(server) for server in self._servers]
        yield from self._section("Running llama-server", running)
        recent = [_recent_entry(one, index) for index, one in enumerate(self._recent)]
        yield from self._section("Last used", recent)
        models = self._matching(_model_entry(model) for model in self.models)
        yield heading(_model_line("Models found", "size", "parameters, quant", "folder"))
        yield from models
        if self._is_complete and not models:
            yield from notes(_NONE_MATCHES if self.models else _NONE)
        command = "llama-server's, with Ctrl+Shift+V in most terminals"
        demo = "SmolLM2-135M and a target made from it"
        others = (
            _entry(PASTE, "Paste a command", command),
            *(_entry(preset, preset.name, preset.description) for preset in self._presets),
            _entry(DemoModel.DENSE, "Demo pair", demo),
        )
        yield from self._section("Or begin with", others)

    def _section(self, title: str, rows: Iterable[tuple[str, Entry]]) -> Iterator[Option]:
        if matching := self._matching(rows):
            yield heading(title)
            yield from matching

    def _matching(self, rows: Iterable[tuple[str, Entry]]) -> list[Entry]:
        """Rows whose text contains every word of the filter."""
        return [
            entry for text, entry in rows if all(word in text.casefold() for word in self._words)
        ]


ALONE = "alone"
"""Value of the row that takes no draft, and its key."""

_NO_TARGET = "Drafts are listed here for a target that is highlighted among the models found."
_DRAFT, _STATE = 28, 8


class DraftList(PickerList):
    """Every other model as a draft of the target, after the choice to take none."""

    def __init__(self, n_ctx: int) -> None:
        """Show nothing until there is a target; a cache holds ``n_ctx`` tokens."""
        super().__init__(id="drafts", markup=False)
        self._n_ctx = n_ctx
        self.target: FoundModel | None = None
        self.ranked: tuple[DraftOption, ...] = ()
        self._inspected: dict[Path, dict[Path, ModelInspected]] = {}
        """Known facts, by the target's path and by the model's."""
        self._asked: set[Path] = set()

    def learn(self, inspected: ModelInspected) -> bool:
        """Keep an inspection of a model; return whether it is for the present target."""
        self._inspected.setdefault(inspected.target, {})[inspected.path] = inspected
        return self.target is not None and inspected.target == self.target.path

    @property
    def target_inspection(self) -> ModelInspected | None:
        """Result of inspecting the target itself."""
        if self.target is None:
            return None
        return self._inspected.get(self.target.path, {}).get(self.target.path)

    @property
    def target_problem(self) -> str | None:
        """Why the target cannot be one; None if nothing is known against it."""
        return None if self.target is None else problem(self.target, self.target_inspection)

    def take_unknown(self) -> tuple[FoundModel, ...]:
        """Return the drafts that have to be looked at, the likely ones first, each only once."""
        if self.target_problem is not None:
            return ()
        unknown = (one.model for one in self.ranked if one.reason is None and not one.is_checked)
        found = tuple(model for model in unknown if model.path not in self._asked)
        self._asked.update(model.path for model in found)
        return found

    def show_nothing(self) -> None:
        """Show that there is nothing to choose."""
        self.target, self.ranked = None, ()
        self._asked.clear()
        self.show_rows(notes(_NO_TARGET), None)

    def show_target(self, target: FoundModel, models: Sequence[FoundModel]) -> None:
        """Rank ``models`` for ``target`` by their inspections.

        The best one that fits is highlighted until the list has the focus: from then on the
        highlight stays where the user has put it.
        """
        key = self.key if target == self.target and self.has_focus else None
        if target != self.target:
            self._asked.clear()
        self.target = target
        inspected = self._inspected.get(target.path, {})
        others = [model for model in models if model.path != target.path]
        about = inspected.get(target.path)
        self.ranked = rank(
            target if about is None or about.facts is None else about.facts,
            [
                assess(target.size_bytes, model, inspected.get(model.path), self._n_ctx)
                for model in others
            ],
        )
        self.show_rows(_draft_rows(self.ranked), key or self._best())

    def _best(self) -> str:
        fitting = (o for o in self.ranked if o.is_checked and not (o.reason or o.slowness))
        return next((str(option.model.path) for option in fitting), ALONE)


def _draft_rows(options: Sequence[DraftOption]) -> Iterator[Option]:
    yield heading(_draft_columns("draft", "", "memory", "file", "why not"))
    about = "Runs the target without a draft."
    yield Entry(ALONE, "No draft: the target alone", ALONE, about=about)
    for option in options:
        memory = draw.NONE if option.memory_bytes is None else bytes_text(option.memory_bytes)
        size, why = bytes_text(option.model.size_bytes), option.reason or option.slowness or ""
        line = _draft_columns(option.model.name, _state(option), memory, size, why)
        yield Entry(option, line, str(option.model.path), is_dim=bool(option.reason))


def _draft_columns(name: str, state: str, memory: str, size: str, why: str) -> str:
    return columns((name, _DRAFT), (state, _STATE), (memory, _SIZE), (size, _SIZE), (why, 0))


def _state(option: DraftOption) -> str:
    if option.reason is not None:
        return "unfit"
    if option.slowness is not None:
        return "slow"
    return "fits" if option.is_checked else "checking"


def detail(entry: Entry | None, inspected: ModelInspected | None) -> str:
    """Describe a row.

    Args:
        entry: The row, None without one.
        inspected: Result of the target's own inspection, if there is one.
    """
    match entry:
        case None:
            return ""
        case Entry(value=FoundModel() as model):
            return _target_line(model, inspected)
        case Entry(value=DraftOption() as option):
            return _draft_line(option)
        case _:
            return visible(entry.about)


def problem(model: FoundModel, inspected: ModelInspected | None) -> str | None:
    """Return why a model cannot be a target, None if no reason is known."""
    return model.damage or (None if inspected is None else inspected.reason)


def _target_line(model: FoundModel, inspected: ModelInspected | None) -> str:
    if (reason := problem(model, inspected)) is not None:
        return f"Cannot be the target: {visible(reason)}."
    files = "" if model.n_shards == 1 else f" in {counted(model.n_shards, 'file')}"
    known = inspected.facts if inspected is not None else None
    facts = "" if known is None else f", {_facts(known)}"
    return f"{bytes_text(model.size_bytes)}{files}{facts}. Enter goes on to its draft."


def _draft_line(option: DraftOption) -> str:
    if option.reason is not None:
        return f"Cannot be the draft: {visible(option.reason)}."
    if option.facts is None:
        return "Is being checked. It can be chosen already: loading it checks it, too."
    if option.memory_bytes is None:
        memory = f"{bytes_text(option.model.size_bytes)} of memory and its cache"
    else:
        memory = f"{bytes_text(option.memory_bytes)} of memory with its cache"
    if option.slowness is not None:
        return f"Slow: {memory}, {visible(option.slowness)}."
    return f"Fits: {memory}, {_facts(option.facts)}"


def _facts(facts: ModelFacts) -> str:
    parts = [visible(facts.arch)]
    if facts.draft_kind == MTP_KIND:
        parts.append("MTP layers alone")
    if facts.n_params is not None:
        parts.append(f"{count_text(facts.n_params)} parameters")
    parts.append(counted(facts.n_layers, "layer"))
    if facts.n_experts:
        parts.append(counted(facts.n_experts, "expert"))
    parts.append(f"trained for {counted(facts.n_ctx_train, 'token')}")
    return ", ".join(parts)
