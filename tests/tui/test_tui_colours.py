"""Colours: each stands for one thing, can be read, and frames can be seen."""

from itertools import pairwise

import pytest
from textual.color import Color
from textual.theme import Theme

from spectui.tui.look import ROLES, THEMES, ColouredApp

FRAME, TEXT = 3.0, 4.5
"""Contrasts that WCAG asks of what has to be seen, and of what has to be read."""


def luminance(colour: Color) -> float:
    parts = (part / 255 for part in colour.rgb)
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lights = (luminance(Color.parse(each)) for each in (one, other))
    dark, light = sorted(lights)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_colour_can_be_read_and_frames_can_be_seen(theme: Theme) -> None:
    for ground in (theme.background, theme.surface):
        assert ground is not None
        assert contrast(theme.variables["frame"], ground) >= FRAME
        for name in ROLES:
            assert contrast(theme.variables[name], ground) >= TEXT, name
    # Hues are apart.
    hues = sorted(Color.parse(theme.variables[name]).hsl.h for name in ROLES)
    gaps = [second - first for first, second in pairwise([*hues, hues[0] + 1])]
    assert min(gaps) > 1 / 60


def test_no_colour_stands_for_two_things() -> None:
    assert len({meaning for meaning, _ in ROLES.values()}) == len(ROLES)
    for look in range(4):
        colours = [each[look] for _, each in ROLES.values()]
        assert len(set(colours)) == len(colours)
        assert look >= len(THEMES) or THEMES[look].primary not in colours


def test_every_look_of_textual_has_every_colour() -> None:
    app = ColouredApp[None]()
    for name in app.available_themes:
        app.theme = name
        variables = app.get_css_variables()
        assert {"frame", *ROLES} <= set(variables), name
