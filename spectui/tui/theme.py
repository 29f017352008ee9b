"""The looks that spectui adds to Textual's own."""

from textual.theme import Theme

DARK = Theme(
    name="spectui-dark",
    primary="#5fafff",
    secondary="#af87ff",
    accent="#ffaf5f",
    success="#5fd787",
    warning="#ffd75f",
    error="#ff6f6f",
    foreground="#dcdfe4",
    background="#111418",
    surface="#171b21",
    panel="#20262e",
    dark=True,
)
LIGHT = Theme(
    name="spectui-light",
    primary="#0057ae",
    secondary="#6b3fa0",
    accent="#a04f00",
    success="#0a6b2d",
    warning="#8a5a00",
    error="#b3201b",
    foreground="#1c1f23",
    background="#fbfbf9",
    surface="#f1f1ee",
    panel="#e4e4df",
    dark=False,
)
HIGH_CONTRAST = Theme(
    name="spectui-high-contrast",
    primary="#00ffff",
    secondary="#ff80ff",
    accent="#ffff00",
    success="#00ff00",
    warning="#ffff00",
    error="#ff8080",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1a1a1a",
    dark=True,
)

THEMES = (DARK, LIGHT, HIGH_CONTRAST)

ASCII_CSS = """
App.-ascii {
    HelpScreen > VerticalScroll, SettingsScreen > VerticalScroll { border: ascii $primary; }
    Toast { border-left: ascii $foreground; }
    CommandPalette {
        #--input { border: none; padding: 1 0; }
        CommandList { border: none; }
        LoadingIndicator { display: none; }
    }
}
"""
"""Frames of what has no class of its own for terminals without box characters."""
