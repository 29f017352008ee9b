"""Reading the command that a user already has."""

import os
import re
import shlex

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spectui.commands.arguments import server_arguments
from spectui.commands.server_options import server_option
from spectui.commands.sources.reading import read_command
from spectui.commands.takeover import take_over
from spectui.errors import BadInputError, UsageError
from spectui.options.catalogue import OPTIONS
from spectui.options.drafters import HIDDEN_STATE_KINDS
from spectui.options.option import Dialect
from spectui.options.setup import Numa
from tests.commands.test_export import hostile
from tests.support.tables import rules, table


def taken(text: str) -> dict[str, tuple[str, ...]]:
    return dict(take_over(read_command(text)).options)


def only(text: str) -> dict[str, tuple[str, ...]]:
    """What is taken of arguments beside the model."""
    found = taken(f"llama-server -m m.gguf {text}")
    assert found.pop("model") == ("m.gguf",)
    return found


def extra(text: str) -> tuple[str, ...]:
    return take_over(read_command(f"llama-server -m m.gguf {text}")).extra


def test_no_two_options_share_a_name() -> None:
    names = [name for option in OPTIONS for name in option.flags]
    assert len(names) == len(set(names))


@settings(deadline=None)
@given(words=st.lists(hostile, max_size=4))
def test_what_is_unknown_travels_as_it_stands(words: list[str]) -> None:
    assume(not any(w.startswith(("~/", "--vision-gemma-")) for w in words))
    assume(not any(server_option(w.partition("=")[0]) for w in words))
    assert extra(shlex.join(["--unknown", *words])) == ("--unknown", *words)


def test_the_last_of_a_switch_and_its_negation_counts() -> None:
    assert only("-nkvo --kv-offload --no-op-offload") == {"no-op-offload": ()}
    assert only("-kvo -nkvo --no-op-offload --op-offload") == {"no-kv-offload": ()}


def test_sampling_is_taken_and_travels_since_the_export_does_not_write_it() -> None:
    assert only("--temp 0.7 --ignore-eos --seed -1") == {"temp": ("0.7",), "ignore-eos": ()}
    assert extra("--temp 0.7 -c 5 --seed -1") == ("--temp", "0.7", "--seed", "-1")


@table(
    ("flag", "name"),
    [(flag, o.name) for o in OPTIONS if o.is_ours and not o.is_switch for flag in o.flags],
)
def test_every_spelling_is_known(flag: str, name: str) -> None:
    words = {
        "flash-attn": "on",
        "spec-type": "ngram-cache",
        "split-mode": "row",
        "numa": "isolate",
    }
    value = words.get(name, "7")
    assert taken(f"-m m {flag} {value}")[name] == (value,)
    if flag.startswith("--"):
        assert taken(f"-m m {flag}={value}")[name] == (value,)
        assert taken(f"-m m {flag.replace('-', '_').replace('__', '--', 1)} {value}")[name] == (
            value,
        )


@table(("words", "load_mode"), rules()["loading"])
def test_how_models_are_loaded(words: str, load_mode: str) -> None:
    taken = take_over(read_command(f"llama-server -m t -md d {words}"))
    setup = taken.to_setup()
    assert setup.draft is not None
    assert (setup.target.load_mode, setup.draft.load_mode) == (load_mode, load_mode)
    assert taken.extra == ()


@table(("words", "said"), rules()["threads"])
def test_threads_and_loading_that_cannot_be_are_refused(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        take_over(read_command(f"llama-server -m t {words}")).to_setup()


def test_a_placement_that_counts_after_another_is_refused() -> None:
    behind = read_command(r"llama-server -m t -ncmoe 2 -ot blk\.1\.ffn_up=CUDA0")
    with pytest.raises(BadInputError, match="write -ot in front of them"):
        take_over(behind)
    ahead = read_command(r"llama-server -m t -ot blk\.1\.ffn_up=CUDA0 -ncmoe 2")
    assert take_over(ahead).to_setup().target.n_cpu_moe == 2


def test_a_pattern_of_the_servers_own_dialect_moves_nothing_where_no_layer_is_in_ram() -> None:
    command = read_command("llama-server -m t -ncmoe 0 -ot '[[:digit:]]=CUDA0'")
    target = take_over(command).to_setup().target
    assert [one.pattern for one in target.override_tensor] == ["[[:digit:]]"]


def test_every_option_of_threads_and_loading_comes_back() -> None:
    words = "-t 4 -tb 6 --numa isolate "
    words += "--load-mode mlock --no-repack --moe-cache-mib 512"
    setup = take_over(read_command(f"llama-server -m t {words}")).to_setup()
    assert (setup.context.numa, setup.extra) == (Numa.ISOLATE, ())
    written = server_arguments(setup.target, None, setup.context, None, dialect=Dialect.LLAMA_CPP)
    assert set(words.split()) <= set(written)
    assert take_over(read_command(shlex.join(["llama-server", *written]))).to_setup() == setup


def test_the_last_of_two_wins_except_for_tensor_overrides() -> None:
    found = only("-c 1 -ot a=CPU -c 2 -ot b=CPU,c=CPU")
    assert found == {"ctx-size": ("2",), "override-tensor": ("a=CPU", "b=CPU,c=CPU")}


@table("kind", ["draft-simple", "draft", "none"])
def test_drafting_by_a_model_needs_no_word(kind: str) -> None:
    assert (only(f"--spec-type {kind}"), extra(f"--spec-type {kind}")) == ({}, ())


def test_drafting_that_cannot_be_measured_is_refused() -> None:
    for kind in ("suffix", "draft:ngram_size_n=4"):
        with pytest.raises(BadInputError, match=f"--spec-type {kind}: spectui drafts with a model"):
            only(f"--spec-type {kind}")
    for kind in HIDDEN_STATE_KINDS:
        with pytest.raises(BadInputError, match=f"asks for {kind}: llama-server can run it, and"):
            only(f"--spec-type ngram-simple,{kind}")


def test_ngram_drafters_are_taken_over_with_their_options() -> None:
    found = only("--spec-type draft,ngram-mod --spec-ngram-mod-n-match 16")
    assert found == {
        "spec-type": ("draft-simple,ngram-mod",),
        "spec-ngram-mod-n-match": ("16",),
    }
    assert extra("--spec-type ngram-cache") == ()
    assert only("--spec-type draft-mtp") == {"spec-type": ("draft-mtp",)}


def test_variables_are_options_and_arguments_win_over_them() -> None:
    found = taken(
        "LLAMA_ARG_MODEL=m LLAMA_ARG_CTX_SIZE=1 LLAMA_ARG_DRAFT_MAX=9 LLAMA_ARG_CPU_MOE=off "
        "LLAMA_ARG_NO_MMAP=anything LLAMA_ARG_SPEC_DRAFT_P_MIN=0.5 LLAMA_ARG_FLASH_ATTN=1 "
        "LLAMA_API_KEY=secret llama-server -c 2"
    )
    assert found == {
        "model": ("m",),
        "ctx-size": ("2",),
        "draft-max": ("9",),
        "no-mmap": (),
        "draft-p-min": ("0.5",),
        "flash-attn": ("on",),
    }


def test_a_command_of_before_spring_has_the_lengths_that_its_builds_had() -> None:
    found = only("-md d.gguf --draft-max 8")
    assert (found["draft-max"], found["draft-p-min"]) == (("8",), ("0.75",))
    assert only("-md d.gguf -cd 512")["draft-max"] == ("16",)
    assert "draft-p-min" not in only("-md d.gguf --spec-type draft-simple --no-mmap")
    assert "draft-p-min" not in only("-md d.gguf")


@table("value", ["0", "-1", "-2"])
def test_threads_of_zero_and_less_are_all_that_the_machine_has(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 24)
    assert only(f"-t {value}") == {"threads": ("24",)}
    assert only(f"-t 1 -tb {value}") == {"threads": ("1",), "threads-batch": ("24",)}
    assert not extra(f"-t {value} -tb {value}")


def test_numbers_out_of_range_are_what_the_server_makes_of_them() -> None:
    found = only("--top-k -1 --temp -0.5 --min-p -1 --numa ''")
    assert found == {"top-k": ("0",), "temp": ("0",), "min-p": ("0",), "numa": ("distribute",)}
    assert extra("--top-k -1") == ("--top-k", "-1")
