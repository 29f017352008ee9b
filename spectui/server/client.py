"""llama-server's HTTP interface, as far as spectui needs it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict, TypeVar

import httpx
import msgspec
from msgspec import Meta

from spectui.closing import Closing
from spectui.errors import ServerError

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


_MOST_MS = 7 * 24 * 3600 * 1000
"""No answer takes a week: such a number is no time."""
_Count = Annotated[int, Meta(ge=0)]
_Milliseconds = Annotated[float, Meta(ge=0, le=_MOST_MS)]


class _Timings(msgspec.Struct):
    predicted_n: _Count
    predicted_ms: _Milliseconds
    prompt_ms: _Milliseconds
    # Both are absent when nothing was drafted.
    draft_n: _Count = 0
    draft_n_accepted: _Count = 0

    def __post_init__(self) -> None:
        # The first token comes with the prompt, and takes no time of its own.
        if self.predicted_n > 1 and not self.predicted_ms:
            raise ValueError(f"predicted_n {self.predicted_n} in predicted_ms 0")
        if self.draft_n_accepted > self.draft_n:
            raise ValueError(f"draft_n_accepted {self.draft_n_accepted} of draft_n {self.draft_n}")


class _CompletionReply(msgspec.Struct):
    content: str
    tokens: tuple[int, ...]
    stop_type: str
    timings: _Timings

    def __post_init__(self) -> None:
        # It may be more: what an answer ends within was decoded all the same.
        if self.timings.predicted_n < len(self.tokens):
            raise ValueError(f"predicted_n {self.timings.predicted_n}, tokens {len(self.tokens)}")


class _TokenizeReply(msgspec.Struct):
    tokens: tuple[int, ...]


class _TemplateReply(msgspec.Struct):
    prompt: str


class _HealthReply(msgspec.Struct):
    status: str


class _Fault(msgspec.Struct):
    message: str


class _ErrorReply(msgspec.Struct):
    error: _Fault


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
        return self._decode(response, _HealthReply).status == "ok"

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
        reply = self._post("/completion", body, _CompletionReply)
        return Completion(
            text=reply.content,
            tokens=reply.tokens,
            n_predicted=reply.timings.predicted_n,
            predicted_s=reply.timings.predicted_ms / 1000,
            n_drafted=reply.timings.draft_n,
            n_accepted=reply.timings.draft_n_accepted,
            prompt_s=reply.timings.prompt_ms / 1000,
            stop=reply.stop_type,
        )

    def tokenize(self, text: str, *, add_special: bool = True) -> tuple[int, ...]:
        """Return the target's token ids of ``text``, special tokens in it parsed as such."""
        body = {"content": text, "add_special": add_special, "parse_special": True}
        return self._post("/tokenize", body, _TokenizeReply).tokens

    def apply_template(self, messages: Sequence[ChatMessage]) -> str:
        """Return the raw prompt that the model's chat template makes of ``messages``."""
        return self._post("/apply-template", {"messages": list(messages)}, _TemplateReply).prompt

    def _post(self, path: str, body: object, kind: type[T]) -> T:
        try:
            response = self._answer("POST", path, timeout_s=self._request_timeout_s, body=body)
        except httpx.RequestError as error:
            raise self._lost_connection(error) from error
        return self._decode(response, kind)

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
        return msgspec.json.decode(response.content, type=_ErrorReply).error.message
    except msgspec.MsgspecError:
        return repr(response.text[:200])
