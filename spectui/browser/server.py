"""Serves the screen on loopback, to who has the token.

The page and its terminal are textual-serve's. The program behind it is spectui in a pseudo terminal
of its own, as in any terminal: its guard process, signals and stored chats work as they do there.
"""

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import WSMsgType, web
from textual_serve.server import Server

from spectui.browser.pseudo_terminal import PseudoTerminal

HOST = "127.0.0.1"
_NAMES = frozenset({HOST, "localhost"})
"""Names under which a browser of this machine, or behind a tunnel, asks for the page."""
_DEFAULT_SIZE = (120, 40)
_CONTENT = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self' 'unsafe-inline'",
    "img-src": "'self' data:",
    "font-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
_HEADERS = {
    "Content-Security-Policy": "; ".join(" ".join(one) for one in _CONTENT.items()),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_REFUSED = "spectui serve: open the address that it has printed, with its token.\n"

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScreenServer(Server):
    """Starts a screen for every page that is opened."""

    def __init__(self, command: Sequence[str], *, port: int) -> None:
        """Serve nothing yet.

        Args:
            command: the program of each page, and its arguments.
            port: on loopback.
        """
        super().__init__(
            "spectui",
            HOST,
            port,
            title="spectui",
            templates_path=Path(__file__).parent / "templates",
        )
        self._screen = command
        self.token = secrets.token_urlsafe(24)

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    async def application(self) -> web.Application:
        """The web application, with every request behind the token."""
        app: web.Application = await self._make_app()
        app.middlewares.append(self._guarded())
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: who runs it has said what is to be said."""

    def _guarded(self) -> Any:  # noqa: ANN401 - aiohttp's
        @web.middleware
        async def guarded(request: web.Request, handler: _Handler) -> web.StreamResponse:
            response = await self._answer(request, handler)
            if not response.prepared:
                response.headers.update(_HEADERS)
            return response

        return guarded

    async def _answer(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        # A name that another site has bound to this machine is not ours.
        if urlsplit(f"//{request.host}").hostname not in _NAMES or not _is_own(request):
            return web.Response(status=403, text=_REFUSED)
        if self._is_token(request.query.get("token")):
            response = web.Response(status=303, headers={"Location": "/"})
            response.set_cookie(
                self._cookie, self.token, httponly=True, samesite="Strict", path="/"
            )
            return response
        if not self._is_token(request.cookies.get(self._cookie)):
            return web.Response(status=403, text=_REFUSED)
        return await handler(request)

    @property
    def _cookie(self) -> str:
        # Browsers hand cookies of one port to all of a host.
        return f"spectui-{self.port}"

    def _is_token(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())

    async def handle_index(self, request: web.Request) -> web.StreamResponse:
        """Answer with the page, whose addresses are those under which it was asked for."""
        self.public_url = f"http://{request.host}"
        response: web.StreamResponse = await super().handle_index(request)
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Start a screen, and hang up when the page is closed."""
        socket = web.WebSocketResponse(heartbeat=15)
        await socket.prepare(request)
        width, height = (
            int(text) if (text := request.query.get(name, "")).isdecimal() else usual
            for name, usual in zip(("width", "height"), _DEFAULT_SIZE, strict=True)
        )
        async with PseudoTerminal(self._screen, width=width, height=height) as terminal:
            drawing = asyncio.create_task(_draw(terminal, socket))
            try:
                await _type(socket, terminal)
            finally:
                drawing.cancel()
        return socket


def _is_own(request: web.Request) -> bool:
    """Whether no other site asks: browsers say where a WebSocket is opened from."""
    origin = request.headers.get("Origin")
    return origin == f"http://{request.host}" or (origin is None and request.path != "/ws")


async def _draw(terminal: PseudoTerminal, socket: web.WebSocketResponse) -> None:
    async for data in terminal.output():
        await socket.send_bytes(data)
    await socket.close()


async def _type(socket: web.WebSocketResponse, terminal: PseudoTerminal) -> None:
    """Pass on what the page says: keys, its size, and whether it still lives."""
    async for message in socket:
        if message.type is not WSMsgType.TEXT:
            continue
        match message.json():
            case ["stdin", str() as text]:
                terminal.write(text.encode())
            case ["resize", {"width": int() as width, "height": int() as height}]:
                terminal.resize(width, height)
            case ["ping", text]:
                await socket.send_json(["pong", text])
