"""Replays added up over recordings."""

import math

import numpy as np
import pytest

from spectui.trace.replay import speedup_spread


def test_the_spread_is_that_of_the_logarithms_of_each_settings_speedups() -> None:
    off_s = [4.0, 4.0, 2.0]
    seconds = np.array([[2.0, 4.0], [1.0, 4.0], [0.25, 2.0]])
    of_each = speedup_spread(off_s, seconds)
    # Twice, four and eight times as fast; never faster.
    assert of_each == pytest.approx([math.log(2), 0.0])


def test_recordings_that_decode_nothing_have_no_part_in_the_spread() -> None:
    seconds = np.array([[2.0], [0.0], [1.0]])
    assert speedup_spread([4.0, 0.0, 4.0], seconds) == pytest.approx([math.log(2) / math.sqrt(2)])
    assert speedup_spread([4.0, 0.0], seconds[:2]) == pytest.approx([0.0])
