"""The server: the SDK's on one side, the tools on the other."""

from __future__ import annotations

import os
import signal
import traceback
from typing import Any

import anyio

import lastout
from lastout.jobs.store import open_jobs
from lastout.mcp import sentences
from lastout.mcp.caller import depth_here, label
from lastout.mcp.desk import Call, Desk, ToolFailed, open_desk
from lastout.mcp.schemas import schema
from lastout.mcp.stdio import stdio
from lastout.mcp.tools import TOOLS, Tool, call_tool

__all__ = ["serve"]


async def serve(
    *,
    state: str | None = None,
    by: str | None = None,
    depth: int = 0,
    max_depth: int,
) -> None:
    """Serve one client on stdin and stdout, until it goes away or by TERM or INT.

    `by` is the label of the asking side, `depth` how many agents stand above it (see
    `lastout.mcp.caller`). What blocks ends with it; what runs in the background does not notice.
    """
    store, above = open_jobs(state), depth_here(depth, os.environ)
    async with open_desk(store, above, max_depth, os.environ) as desk:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_signals, desk, tasks.cancel_scope)
            async with stdio(desk.gone) as (messages, answers):
                server = _server(desk, by)
                await server.run(messages, answers, server.create_initialization_options())
            tasks.cancel_scope.cancel()


async def _signals(desk: Desk, scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async for _ in received:
            desk.gone.set()
            scope.cancel()
            return


def _server(desk: Desk, by: str | None) -> Any:
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS, CallToolResult, ListToolsResult, TextContent

    listed = ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def list_tools(context: Any, params: Any) -> Any:
        return listed

    async def call(context: Any, params: Any) -> Any:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(
                code=INVALID_PARAMS, message=sentences.no_such_tool(params.name, list(TOOLS))
            )
        client = context.session.client_params
        name = client.client_info.name if client is not None else None
        asker = label(by, name, context.meta, os.environ)
        try:
            answer = await call_tool(
                Call(desk, asker, context.session), tool, params.arguments or {}
            )
            return _answered(answer)
        except ToolFailed as failed:
            problem = str(failed)
        except Exception as error:
            # A defect of ours: whoever asked hears of it, and stderr has the place.
            traceback.print_exc()
            problem = sentences.unexpected(error)
        return CallToolResult(content=[TextContent(type="text", text=problem)], is_error=True)

    return Server(
        "lastout",
        version=lastout.__version__,
        title="lastout",
        description=sentences.ABOUT,
        instructions=sentences.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call,
    )


def _answered(answer: Any) -> Any:
    import msgspec
    from mcp_types import CallToolResult, TextContent

    encoded = msgspec.json.encode(answer)
    # The same as text, for clients that know no structured content.
    text = TextContent(type="text", text=encoded.decode())
    return CallToolResult(content=[text], structured_content=msgspec.json.decode(encoded))


def _described(tool: Tool) -> Any:
    import mcp_types

    title, description = sentences.TOOLS[tool.name]
    return mcp_types.Tool(
        name=tool.name,
        title=title,
        description=description,
        input_schema=schema(tool.takes),
        output_schema=schema(tool.gives),
        annotations=mcp_types.ToolAnnotations(
            read_only_hint=tool.looks,
            destructive_hint=tool.acts or tool.ends,
            idempotent_hint=tool.looks or tool.again,
            open_world_hint=tool.acts,
        ),
    )
