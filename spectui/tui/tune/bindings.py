"""Keys of the tune screen and of its table; the ids are stable, so that users can rebind them."""

from textual.binding import Binding, BindingType

SCREEN: list[BindingType] = [
    Binding("s", "start", "Start", id="tune.start", tooltip="Start tuning, or go on with it"),
    Binding("space", "pause", "Pause", id="tune.pause", tooltip="Let go of the engine at once"),
    Binding("space", "resume", "Resume", id="tune.resume", tooltip="Let tuning go on"),
    Binding("x", "stop", "Stop", id="tune.stop", tooltip="End tuning with what it has found"),
    Binding(
        "a",
        "apply",
        "Apply",
        id="tune.apply",
        tooltip="Use in the chat what the verdict says, or the best so far",
    ),
    Binding(
        "enter",
        "apply_selected",
        "Apply row",
        key_display="enter",
        id="tune.apply_selected",
        tooltip="Use the setting of the selected trial in the chat",
    ),
    Binding("e", "export", "Export", id="tune.export", tooltip="Show the flags for llama-server"),
    Binding("1", "view('trials')", "Show trials", id="tune.view_trials", show=False),
    Binding("2", "view('map')", "Show map", id="tune.view_map", show=False),
    Binding("3", "view('plots')", "Show plots", id="tune.view_plots", show=False),
    Binding("escape", "back", "Back", id="tune.back", tooltip="Leave; tuning goes on"),
    Binding(
        "p",
        "source",
        "Prompts",
        id="tune.source",
        tooltip="Tune on the built-in prompts, on files, or on the turns of this chat",
    ),
    Binding(
        "n",
        "trials",
        "Trials",
        id="tune.trials",
        show=False,
        tooltip="How many trials to run in all",
    ),
    Binding(
        "o",
        "sort",
        "Sort",
        id="tune.sort",
        show=False,
        tooltip="Sort the trials by the next column",
    ),
    Binding("r", "reverse", "Reverse order", id="tune.reverse", show=False),
]
TABLE: list[BindingType] = [
    Binding("up,k", "move(-1)", "Row up", show=False, id="tune.row_up"),
    Binding("down,j", "move(1)", "Row down", show=False, id="tune.row_down"),
    Binding("pageup", "move_page(-1)", "Page up", show=False, id="tune.page_up"),
    Binding("pagedown", "move_page(1)", "Page down", show=False, id="tune.page_down"),
    Binding("home", "move_to_end(-1)", "First row", show=False, id="tune.first_row"),
    Binding("end", "move_to_end(1)", "Last row", show=False, id="tune.last_row"),
]
