"""Prompts and documents that the MCP server offers in addition to tools."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from adderclaw.core.errors import PathRefused

if TYPE_CHECKING:
    import mcp_types as types

MOST_COMPLETIONS = 100


class Prompt(NamedTuple):
    name: str
    description: str
    arguments: tuple[str, ...] = ()
    """Names of its optional arguments."""


class Document(NamedTuple):
    uri: str
    """In a template, with the variable in braces."""
    name: str
    description: str
    mime_type: str = "application/json"


def _no_completion(_of: str, _argument: str) -> list[str]:
    return []


class Resources(NamedTuple):
    """Functions that serve them. They raise Refused, whose message the client sees, for unknown names."""

    prompts: Callable[[], Iterable[Prompt]]
    prompt: Callable[[str, dict[str, str]], Awaitable[str]]
    documents: tuple[Document, ...]
    templates: tuple[Document, ...]
    read: Callable[[str], tuple[str, str]]
    """URI of a document → its text and media type."""
    complete: Callable[[str, str], list[str]] = _no_completion
    """(prompt or template, argument) → possible values."""


def handlers(resources: Resources) -> dict[str, Any]:
    """The SDK's handlers, by the parameter names of its server."""
    import mcp_types as types
    from mcp import MCPError

    async def list_prompts(_context: Any, _params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_prompt(prompt) for prompt in resources.prompts()])

    async def get_prompt(_context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        try:
            text = await resources.prompt(params.name, dict(params.arguments or {}))
        except PathRefused as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(messages=[message])

    async def list_resources(_context: Any, _params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[types.Resource(**document._asdict()) for document in resources.documents]
        )

    async def list_templates(_context: Any, _params: Any) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(uri_template=document.uri, **_document_fields(document))
            for document in resources.templates
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(_context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            text, kind = resources.read(uri)
        except PathRefused as error:
            raise MCPError(types.INVALID_PARAMS, str(error), {"uri": uri}) from None
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=kind, text=text)])

    async def complete(_context: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
        of = params.ref.name if isinstance(params.ref, types.PromptReference) else str(params.ref.uri)
        begun = params.argument.value
        matches = [value for value in resources.complete(of, params.argument.name) if value.startswith(begun)]
        shown = matches[:MOST_COMPLETIONS]
        completion = types.Completion(values=shown, total=len(matches), has_more=len(matches) > len(shown))
        return types.CompleteResult(completion=completion)

    return {
        "on_list_prompts": list_prompts,
        "on_get_prompt": get_prompt,
        "on_list_resources": list_resources,
        "on_list_resource_templates": list_templates,
        "on_read_resource": read_resource,
        "on_completion": complete,
    }


def _prompt(prompt: Prompt) -> "types.Prompt":
    import mcp_types as types

    arguments = [types.PromptArgument(name=name, required=False) for name in prompt.arguments]
    return types.Prompt(name=prompt.name, description=prompt.description, arguments=arguments)


def _document_fields(document: Document) -> dict[str, Any]:
    return {"name": document.name, "description": document.description, "mime_type": document.mime_type}
