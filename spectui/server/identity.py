"""What tells one running llama-server from another that has taken its port."""

from dataclasses import dataclass

import msgspec


class _Defaults(msgspec.Struct):
    n_ctx: int | None = None


class PropsReply(msgspec.Struct):
    """``GET /props``, as far as it tells servers apart."""

    model_path: str | None = None
    build_info: str | None = None
    total_slots: int | None = None
    media_marker: str | None = None
    default_generation_settings: _Defaults = msgspec.field(default_factory=_Defaults)


_NOW = {
    True: "it speculates now, and did not before",
    False: "it does not speculate any more",
    None: "it does not tell any more whether it speculates",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What does not change while a server runs. None where it does not say."""

    model: str | None = None
    build: str | None = None
    n_slots: int | None = None
    n_ctx: int | None = None
    marker: str | None = None
    """Drawn anew whenever a current llama-server starts."""
    speculates: bool | None = None

    def change(self, now: "Identity") -> str | None:
        """What is another than before, in a clause; None where nothing is."""
        if self.model != now.model:
            return f"its model was {self.model} and is {now.model}"
        if self.build != now.build:
            return f"its build was {self.build} and is {now.build}"
        if self.speculates != now.speculates:
            return _NOW[now.speculates]
        return None if self == now else "it was started again, or is another one"


def identity_of(props: PropsReply | None, *, speculates: bool | None) -> Identity:
    """From what a server tells; ``props`` is None where it tells nothing."""
    if props is None:
        return Identity(speculates=speculates)
    return Identity(
        model=props.model_path,
        build=props.build_info,
        n_slots=props.total_slots,
        n_ctx=props.default_generation_settings.n_ctx,
        marker=props.media_marker,
        speculates=speculates,
    )
