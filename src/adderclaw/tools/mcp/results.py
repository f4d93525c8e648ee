"""Converts a server's answer to one result for the model: text, images and links."""

import json
import re
from collections.abc import Iterable
from typing import Any

from adderclaw.core.json_text import canonical
from adderclaw.core.redaction import visible
from adderclaw.core.types import Json, MediaBlock, ToolResult

PROMPT_CHARS = 100_000
"""Most characters of a prompt: about 25,000 tokens."""
MOST_IMAGES = 8
IMAGE_CHARS = 7_000_000
"""Base64 of about 5 MB, the most that providers accept."""
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def call_result(result: Any) -> ToolResult:
    """The result of a tool call."""
    texts, media = contents(result.content)
    structured: Any = result.structured_content
    if structured is not None and not _contains_structured(texts, structured):
        texts.append(f"structured content: {canonical(structured)}")
    body = visible_text("\n".join(texts) or "(nothing)")
    return ToolResult(body, "rejected" if result.is_error else "ok", media=tuple(media))


def _contains_structured(texts: list[str], structured: Any) -> bool:
    """Whether a text already contains the structured content, as the protocol recommends."""
    for text in texts:
        try:
            if json.loads(text) in (structured, structured.get("result") if isinstance(structured, dict) else None):  # pyright: ignore[reportUnknownMemberType]
                return True
        except (ValueError, RecursionError):
            continue
    return isinstance(structured, dict) and structured.get("result") in texts  # pyright: ignore[reportUnknownMemberType]


def contents(blocks: Iterable[Any]) -> tuple[list[str], list[MediaBlock]]:
    texts: list[str] = []
    media: list[MediaBlock] = []
    for block in blocks:
        match block.type:
            case "text":
                texts.append(block.text)
            case "image" if _is_showable(block.mime_type, block.data, media):
                media.append(MediaBlock(block.mime_type, block.data))
            case "image" | "audio":
                texts.append(f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4} bytes: not shown]")
            case "resource_link":
                texts.append(_link(block))
            case "resource":
                texts.append(_resource(block.resource, media))
            case kind:
                texts.append(f"[{kind}: not shown]")
    return texts, media


def _is_showable(mime_type: str, data: str, media: list[MediaBlock]) -> bool:
    whole = re.fullmatch(r"[A-Za-z0-9+/]*={0,2}", data) is not None
    return mime_type in IMAGES and whole and 0 < len(data) <= IMAGE_CHARS and len(media) < MOST_IMAGES


def _link(block: Any) -> str:
    details = ", ".join(str(part) for part in (block.title or block.name, block.mime_type, block.description) if part)
    return f"[resource {block.uri} ({details}); ReadMcpResource reads it]"


def _resource(resource: Any, media: list[MediaBlock]) -> str:
    text: str | None = getattr(resource, "text", None)
    if text is not None:
        return f"[resource {resource.uri}]\n{text}"
    kind, blob = str(resource.mime_type or "application/octet-stream"), str(resource.blob)
    if _is_showable(kind, blob, media):
        media.append(MediaBlock(kind, blob))
        return f"[resource {resource.uri}: the image is shown]"
    return f"[resource {resource.uri}, {kind}, {len(blob) * 3 // 4} bytes: not shown]"


def resource_result(result: Any) -> ToolResult:
    media: list[MediaBlock] = []
    texts = [_resource(resource, media) for resource in result.contents]
    return ToolResult(visible_text("\n".join(texts) or "(empty)"), media=tuple(media))


def visible_text(text: str) -> str:
    """The text without invisible characters; the kernel frames it as data and cuts it."""
    return visible(text)


def prompt_text(result: Any) -> str:
    """A prompt's messages as one user message."""
    parts: list[str] = []
    for message in result.messages:
        texts, _ = contents([message.content])
        body = visible("\n".join(texts))
        parts.append(body if message.role == "user" else f"(assistant) {body}")
    return "\n\n".join(parts)[:PROMPT_CHARS]


def resource_row(resource: Any, server: str) -> Json:
    """A resource in a list."""
    entry: Json = {"server": server, "uri": str(resource.uri), "name": resource.title or resource.name}
    if resource.mime_type:
        entry["mimeType"] = resource.mime_type
    if resource.description:
        entry["description"] = visible(resource.description)[:500]
    return entry
