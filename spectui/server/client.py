"""llama-server's HTTP interface, as far as spectui needs it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar

import httpx
import msgspec

from spectui.closing import Closing
from spectui.errors import ServerError
from spectui.server.identity import Identity, PropsReply, identity_of
from spectui.server.replies import (
    CompletionReply,
    ErrorReply,
    HealthReply,
    SlotReply,
    TemplateReply,
    TokenizeReply,
)

T = TypeVar("T")


class ChatMessage(TypedDict):
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What the server generated for one prompt, and what it cost."""

    text: str
    tokens: tuple[int, ...]
    n_predicted: int
    predicted_s: float
    """Decode time. The first token comes from the prompt's logits, so this is the time of
    ``n_predicted - 1`` tokens."""
    n_drafted: int
    n_accepted: int
    prompt_s: float
    """Of evaluating what of the prompt was not cached."""
    stop: str
    """Why it ended: ``eos``, ``word``, ``limit`` or ``none``."""


class LlamaClient(Closing):
    """Talks to a llama-server that is already running."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        name: str = "llama-server",
        request_timeout_s: float = 600.0,
    ) -> None:
        self.base_url = base_url
        self.api_key = api_key
        self.name = name
        self._request_timeout_s = request_timeout_s
        self._http = httpx.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {api_key}"} if api_key else None,
            timeout=request_timeout_s,
            trust_env=False,  # a configured proxy cannot reach this machine's loopback
        )

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def is_ready(self, *, timeout_s: float) -> bool:
        """Return whether the server answers that its model is loaded."""
        try:
            response = self._answer("GET", "/health", timeout_s=timeout_s)
        except httpx.RequestError:
            return False
        if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return False  # still loading
        return self._decode(response, HealthReply).status == "ok"

    def speculates(self) -> bool | None:
        """Whether it was started to; None where it does not tell.

        Raises:
            ServerError: it does not answer.
        """
        slots = self._page("/slots", list[SlotReply])  # none with --no-slots
        return None if slots is None else any(slot.speculative for slot in slots)

    def identity(self) -> Identity:
        """What tells it from another server on the same port.

        Raises:
            ServerError: it does not answer.
        """
        return identity_of(self._page("/props", PropsReply), speculates=self.speculates())

    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        n_predict: int,
        temperature: float = 0.0,
        seed: int = 0,
        ignore_eos: bool = False,
        cache_prompt: bool = False,
        **extra: object,
    ) -> Completion:
        """Generate up to ``n_predict`` tokens.

        Args:
            prompt: raw text, or token ids that are fed as they stand.
            n_predict: most tokens to generate.
            temperature: 0 is greedy.
            seed: of the server's sampler.
            ignore_eos: generate all ``n_predict`` tokens whatever they are.
            cache_prompt: reuse the prefix of the previous prompt, which is faster but makes the
                work of a request depend on the one before it.
            extra: more fields of ``POST /completion``, such as ``top_k``.

        Raises:
            ServerError: the server refused, failed or answered nonsense.
        """
        body: dict[str, object] = {
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "n_predict": n_predict,
            "temperature": temperature,
            "seed": seed,
            "ignore_eos": ignore_eos,
            "cache_prompt": cache_prompt,
            "return_tokens": True,
            **extra,
        }
        reply = self._post("/completion", body, CompletionReply)
        return Completion(
            text=reply.content,
            tokens=reply.tokens,
            n_predicted=reply.timings.predicted_n,
            predicted_s=reply.timings.predicted_ms / 1000,
            n_drafted=reply.timings.n_drafted,
            n_accepted=reply.timings.n_accepted,
            prompt_s=reply.timings.prompt_ms / 1000,
            stop=reply.stop_type,
        )

    def tokenize(self, text: str, *, add_special: bool = True) -> tuple[int, ...]:
        """Return the target's token ids of ``text``, special tokens in it parsed as such."""
        body = {"content": text, "add_special": add_special, "parse_special": True}
        return self._post("/tokenize", body, TokenizeReply).tokens

    def apply_template(self, messages: Sequence[ChatMessage]) -> str:
        """Return the raw prompt that the model's chat template makes of ``messages``."""
        return self._post("/apply-template", {"messages": list(messages)}, TemplateReply).prompt

    def _post(self, path: str, body: object, kind: type[T]) -> T:
        try:
            response = self._answer("POST", path, timeout_s=self._request_timeout_s, body=body)
        except httpx.RequestError as error:
            raise self._lost_connection(error) from error
        return self._decode(response, kind)

    def _page(self, path: str, kind: type[T]) -> T | None:
        """What a page tells; None where it is not there, or tells something else."""
        try:
            response = self._answer("GET", path, timeout_s=self._request_timeout_s)
        except httpx.RequestError as error:
            raise self._lost_connection(error) from error
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.MsgspecError:
            return None

    def _answer(
        self, method: str, path: str, *, timeout_s: float, body: object = None
    ) -> httpx.Response:
        """The whole of an answer, in time: httpx limits each read, and there may be many.

        Raises:
            httpx.RequestError: there is none.
        """
        asked_s = time.monotonic()
        with self._http.stream(method, path, json=body, timeout=timeout_s) as response:
            content = bytearray()
            for part in response.iter_bytes():
                content += part
                if time.monotonic() - asked_s > timeout_s:
                    raise httpx.ReadTimeout("it has no end", request=response.request)
        return httpx.Response(
            response.status_code, content=bytes(content), request=response.request
        )

    def _decode(self, response: httpx.Response, kind: type[T]) -> T:
        where = f"{response.request.method} {response.request.url}"
        if not response.is_success:
            raise ServerError(
                f"{self.name} answered {where} with status {response.status_code}: "
                f"{_fault(response)}"
            )
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.MsgspecError as error:
            raise ServerError(
                f"the answer of {self.name} to {where} is not what spectui understands ({error}); "
                "use a recent llama-server"
            ) from error

    def _lost_connection(self, error: httpx.RequestError) -> ServerError:
        """Say what happened when a request got no answer."""
        where = f"from {self.name} at {self.base_url}"
        if isinstance(error, httpx.TimeoutException):
            return ServerError(
                f"no answer {where} within {self._request_timeout_s:g} s; --timeout gives it longer"
            )
        return ServerError(f"no answer {where}: {str(error) or type(error).__name__}")


def _fault(response: httpx.Response) -> str:
    """Return the server's own words, as far as there are any."""
    try:
        return msgspec.json.decode(response.content, type=ErrorReply).error.message
    except msgspec.MsgspecError:
        return repr(response.text[:200])
