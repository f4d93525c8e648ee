"""The files of the pages: one stylesheet, one script, one icon, each known by the hash of its bytes."""

import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from adderclaw.core.record import NamedTuple
from adderclaw.server.endpoint import ApiRequest, Endpoint

if TYPE_CHECKING:
    from starlette.responses import Response


class Asset(NamedTuple):
    body: bytes
    media_type: str
    tag: str
    """The first characters of its SHA-256: its ETag, and the `v` of its address."""

    @property
    def etag(self) -> str:
        return f'"{self.tag}"'


FILES = {
    "style.css": (
        "text/css; charset=utf-8",
        (("adderclaw.agent.view", "style.css"), (__package__ or "", "shell.css"), (__package__ or "", "plots.css")),
    ),
    "app.js": ("text/javascript; charset=utf-8", ((__package__ or "", "app.js"),)),
    "icon.svg": ("image/svg+xml", ((__package__ or "", "icon.svg"),)),
}
"""Name → its media type, and the package files that it is made of."""


@cache
def asset(name: str) -> Asset:
    media_type, parts = FILES[name]
    body = b"\n".join(resources.files(package).joinpath(file).read_bytes() for package, file in parts)
    return Asset(body, media_type, hashlib.sha256(body).hexdigest()[:16])


def address(name: str) -> str:
    """Its address in a page: another one after every change, so that a browser may keep it for ever."""
    return f"/ui/{name}?v={asset(name).tag}"


def _serve(name: str) -> Endpoint:
    async def answer(request: ApiRequest) -> "Response":
        from starlette.responses import Response

        file = asset(name)
        known = request.http.query_params.get("v") == file.tag
        headers = {
            "ETag": file.etag,
            "Cache-Control": "public, max-age=31536000, immutable" if known else "no-cache",
            "X-Content-Type-Options": "nosniff",
        }
        if file.etag in request.http.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.body, media_type=file.media_type, headers=headers)

    return Endpoint("GET", f"/ui/{name}", "open", answer, f"The pages' {name}.", is_page=True)


ENDPOINTS = tuple(_serve(name) for name in FILES)
