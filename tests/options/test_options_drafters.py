"""Drafters: their numbers are llama-server's, and each is described once."""

import math
import re
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from spectui.errors import UsageError
from spectui.measure.server_backend import remembers
from spectui.options.drafters import (
    DRAFTERS,
    MODELS,
    NGRAM_KINDS,
    NGRAMS,
    DraftDflash,
    DraftDspark,
    DraftEagle3,
    DrafterOptions,
    DraftMtp,
    DraftSimple,
    ModelDrafter,
    NgramCache,
    NgramDrafter,
    NgramMapK,
    NgramMod,
    NgramSimple,
    drafter_class,
    kind_of,
    numbers_of,
)
from spectui.options.option import Number
from spectui.options.speculation import Speculation, speculation_of
from spectui.trace.ngrams import hashes_tokens
from tests.support.drafters import speculations
from tests.support.tables import table

pytest_plugins = ["tests.support.fixtures"]

EVERY_NUMBER = [(one, number) for one in DRAFTERS for number in numbers_of(one)]
ALL_NUMBERS = table(("drafter", "number"), EVERY_NUMBER)


@pytest.mark.server
def test_defaults_and_kinds_are_those_that_the_real_server_tells(llama_server_binary: Path) -> None:
    command = [str(llama_server_binary), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    for drafter in DRAFTERS:
        for number in numbers_of(drafter):
            told = re.search(
                rf"^{number.flags[-1]}\b.*?\(default: ([\d.]+)\)",
                done.stdout,
                re.MULTILINE | re.DOTALL,
            )
            assert told is not None, number.flags
            assert float(told[1]) == number.default, number.flags
    (kinds,) = re.findall(r"^--spec-type (\S+)", done.stdout, re.MULTILINE)
    assert sorted(kinds.split(",")) == sorted(["none", *map(kind_of, DRAFTERS)])


def test_every_kind_is_in_one_place() -> None:
    kinds = [kind_of(one) for one in DRAFTERS]
    assert len(set(kinds)) == len(kinds)
    assert {drafter_class(kind) for kind in kinds} == set(DRAFTERS)
    for drafter in DRAFTERS:
        one = drafter()
        assert isinstance(one, NgramDrafter) != isinstance(one, ModelDrafter)
        assert (drafter in NGRAMS) == isinstance(one, NgramDrafter)
        assert (drafter in MODELS) == isinstance(one, ModelDrafter)
        assert one.kind == kind_of(drafter)
        bounds = [number for number in numbers_of(drafter) if number.bounds_drafts]
        assert len(bounds) == (drafter is not NgramCache)
        for number in bounds:
            assert msgspec.structs.replace(one, **{number.name: 7}).longest == 7
    assert NgramCache().longest == NgramCache.LONGEST == 8
    assert [one for one in DRAFTERS if one.needs_draft] == [
        *(DraftSimple, DraftEagle3, DraftDflash, DraftDspark)
    ]
    chains = {one: Speculation(one()) for one in NGRAMS}
    assert {one for one, chain in chains.items() if not remembers(chain)} == {NgramSimple}
    assert not remembers(Speculation())
    assert not remembers(None)
    assert [one for one, chain in chains.items() if hashes_tokens(chain)] == [*NGRAMS[1:4]]
    assert set(NGRAM_KINDS) == {kind_of(one) for one in NGRAMS}


@ALL_NUMBERS
def test_a_number_is_taken_within_its_range(drafter: type[DrafterOptions], number: Number) -> None:
    assert number.low <= number.default <= number.high
    assert number.low <= number.earlier_default <= number.high
    for value in (number.low, number.high):
        kept = {"kind": kind_of(drafter), number.name: number.type(value)}
        assert getattr(msgspec.convert(kept, drafter), number.name) == value
    step = 1 if number.type is int else 0.01
    for value in (number.low - step, number.high + step, math.nan):
        kept = {"kind": kind_of(drafter), number.name: value}
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(kept, drafter)


@table(
    ("drafter", "problem"),
    [
        (DraftSimple(draft_max=3, draft_min=3), None),
        (DraftMtp(draft_max=3, draft_min=4), "draft_min 4 is above draft_max 3"),
        (NgramSimple(size_n=8, size_m=8), None),
        (NgramSimple(size_n=12, size_m=8), "size_n 12 is above size_m 8"),
        # Shorter drafts than the n-gram are drafts of these, and a table may be left early.
        (NgramMapK(size_n=12, size_m=8), None),
        (NgramMod(n_min=48, n_max=8), None),
    ],
)
def test_a_drafter_that_would_never_draft_says_so(
    drafter: DrafterOptions, problem: str | None
) -> None:
    told = f"{problem}, so every draft would be dropped"
    assert drafter.check() == (None if problem is None else told)


@given(speculation=speculations())
def test_within_its_bounds_a_drafter_drafts_as_long_and_is_read_again(
    speculation: Speculation,
) -> None:
    assert msgspec.json.decode(msgspec.json.encode(speculation), type=Speculation) == speculation
    own = speculation.own
    bounded = own.within_bounds()
    assert bounded.check() is None
    assert bounded.longest == own.longest
    assert (bounded == own) == (own.check() is None)


@ALL_NUMBERS
def test_a_search_tries_valid_values(drafter: type[DrafterOptions], number: Number) -> None:
    values = number.searched_values(16)
    assert bool(values) == (number.searched is not None)
    for value in values:
        found = msgspec.structs.replace(drafter(), **{number.name: value})
        assert getattr(msgspec.convert(msgspec.to_builtins(found), drafter), number.name) == value
    assert max(values, default=16) == 16 or not number.bounds_drafts


def test_the_command_line_names_its_own_flags() -> None:
    values = {number.parameter: number.default for _, number in EVERY_NUMBER}
    with pytest.raises(UsageError) as caught:
        speculation_of(("ngram-simple",), {**values, "spec_ngram_simple_size_m": 8})
    assert str(caught.value) == (
        "--spec-ngram-simple-size-n 12 is above --spec-ngram-simple-size-m 8, so every draft would "
        "be dropped; lower it"
    )
    with pytest.raises(UsageError, match="one draft context; name one"):
        speculation_of(("draft-simple", "draft-mtp"), values)


def test_kinds_of_options_are_asked_in_the_servers_order() -> None:
    values = {number.parameter: number.default for _, number in EVERY_NUMBER}
    found = speculation_of(("draft-mtp", "ngram-cache", "ngram-mod", "ngram-simple"), values)
    assert found == Speculation(DraftMtp(), (NgramSimple(), NgramMod(), NgramCache()))
    assert (found.is_mtp, found.needs_draft, found.model) == (True, False, DraftMtp())
    assert found.longest == 64
    alone = speculation_of(("ngram-cache", "ngram-simple"), values)
    assert alone == Speculation(NgramCache(), (NgramSimple(),))
    assert alone.model is None
