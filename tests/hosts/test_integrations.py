"""What each integration does besides leaving nobody behind (that is the survey's)."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from survey import HOSTS, missing

from lastout.evidence.events import TreeGone
from lastout.evidence.settled import settled

PATHS = os.pathsep.join(path for path in sys.path if path)
ENV = {**os.environ, "PYTHONPATH": PATHS}


def run(program: str, *words: str, timeout: float = 100) -> str:
    """Run a program of its own: these hosts change what they find in a process."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *words],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_importing_lastout_imports_no_host() -> None:
    program = """
        import sys, lastout
        for name in lastout.__all__:
            getattr(lastout, name)
        hosts = {"mcp", "acp", "claude_agent_sdk", "openai_codex", "jupyter_client", "distributed",
                 "trio", "pytest"}
        print(sorted(hosts & set(sys.modules)))
    """
    assert run(program) == "[]\n"


def test_a_reusable_command_makes_a_run_of_every_start(tmp_path: Path) -> None:
    from lastout.integrations.reusable import reusable

    command = reusable(["sh", "-c", "exit 3"], graces="mcp", state=tmp_path / "state")
    for _ in range(2):
        started = subprocess.run(command, stdin=subprocess.DEVNULL, env=ENV, cwd=tmp_path)
        assert started.returncode == 3
    assert len(list((tmp_path / "state").glob("runs/*/*.jsonl"))) == 2


def test_the_current_directory_is_not_searched(tmp_path: Path) -> None:
    """A host starts servers wherever it likes, also where somebody has left a `lastout.py`."""
    from lastout.integrations.reusable import reusable

    (tmp_path / "lastout.py").write_text("raise SystemExit(99)")
    command = reusable(["true"], state=tmp_path / "state")
    assert subprocess.run(command, stdin=-3, env=ENV, cwd=tmp_path).returncode == 0


# --- mcp --------------------------------------------------------------------------------------


SERVER = """
try:
    from mcp.server import MCPServer
except ImportError:  # before 2.0
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("sums")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

server.run()
"""


@pytest.mark.parametrize("how", ["transport", "supervised"])
def test_mcp_a_real_server_is_called(tmp_path: Path, how: str) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(SERVER)
    program = """
        import asyncio, sys
        from mcp import ClientSession, StdioServerParameters, stdio_client
        from lastout.integrations.mcp import supervised, transport

        async def main():
            script, how, state = sys.argv[1:]
            server = StdioServerParameters(command=sys.executable, args=[script])
            if how == "transport":
                streams = transport(server, state=state)
            else:
                streams = stdio_client(supervised(server, state=state))
            async with streams as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                answer = await session.call_tool("add", {"a": 2, "b": 3})
                print(answer.content[0].text)

        asyncio.run(main())
    """
    state = tmp_path / "state"
    assert run(program, str(tmp_path / "server.py"), how, str(state)) == "5\n"
    records = list(state.glob("runs/*/*.jsonl"))
    assert len(records) == 1
    assert isinstance(settled(records[0]).final, TreeGone)


def test_mcp_a_server_that_ends_ends_the_session(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    program = """
        import asyncio, sys
        from mcp import StdioServerParameters
        from lastout.integrations.mcp import transport

        async def main():
            server = StdioServerParameters(command="sh", args=["-c", "echo nonsense; exit 4"])
            async with transport(server, state=sys.argv[1]) as (read, write):
                told = [type(message).__name__ async for message in read]
            print(told)

        asyncio.run(main())
    """
    assert "ValidationError" in run(program, str(tmp_path))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_mcp_a_cancelled_client_leaves_no_server(tmp_path: Path, backend: str) -> None:
    pytest.importorskip("mcp")
    pytest.importorskip(backend)
    program = """
        import sys, anyio
        from mcp import StdioServerParameters
        from lastout.integrations.mcp import transport

        async def main():
            words = ["-c", f"setsid sleep 60 & echo $! > {sys.argv[1]}/pid; trap '' TERM; cat; wait"]
            server = StdioServerParameters(command="sh", args=words)
            with anyio.move_on_after(0.5):
                async with transport(server, graces="instant", state=sys.argv[1]):
                    await anyio.sleep_forever()

        anyio.run(main, backend=sys.argv[2])
    """
    run(program, str(tmp_path), backend)
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


# --- claude-agent-sdk -------------------------------------------------------------------------

CLAUDE = """\
#!/bin/sh
read request
id=$(echo "$request" | sed 's/.*"request_id": *"\\([^"]*\\)".*/\\1/')
echo '{"type":"control_response","response":{"subtype":"success","request_id":"'$id'","response":{}}}'
read prompt
cat > /dev/null   # to the end of stdin, which comes at once
sleep 2
echo '{"type":"result","subtype":"success","duration_ms":1,"duration_api_ms":1,"is_error":false,'\\
'"num_turns":1,"session_id":"s","result":"worked on"}'
"""


@pytest.mark.parametrize("how", ["cli_path", "transport"])
def test_claude_works_on_after_the_end_of_stdin(tmp_path: Path, how: str) -> None:
    """`query` closes stdin when the prompt is written: that is no order to go."""
    pytest.importorskip("claude_agent_sdk")
    claude = tmp_path / "claude"
    claude.write_text(CLAUDE)
    claude.chmod(0o700)
    program = """
        import anyio, sys
        from claude_agent_sdk import ClaudeAgentOptions, query
        from lastout.integrations.claude import Transport, cli_path

        async def main():
            claude, how, state = sys.argv[1:]
            if how == "cli_path":
                path = cli_path(claude, state=state)
                assert path == cli_path(claude, state=state)
                options = {"options": ClaudeAgentOptions(cli_path=path)}
            else:
                options = {"transport": Transport([claude], state=state)}
            async for message in query(prompt="go on", **options):
                print(getattr(message, "result", None))

        anyio.run(main)
    """
    assert "worked on" in run(program, str(claude), how, str(tmp_path / "state"))


def test_claude_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("claude_agent_sdk")
    program = """
        import anyio, claude_agent_sdk
        from lastout.integrations.claude import Transport

        async def main():
            try:
                await Transport(["/nonexistent"], record=None).connect()
            except claude_agent_sdk.CLINotFoundError as error:
                print("not found")

        anyio.run(main)
    """
    assert run(program) == "not found\n"


# --- codex ------------------------------------------------------------------------------------


def test_codex_launch_args_take_what_the_sdk_then_ignores(tmp_path: Path) -> None:
    from lastout.integrations.codex import launch_args

    argv = launch_args("/opt/codex", config_overrides=["model=x"], state=tmp_path)
    after = argv[argv.index("--") + 1 :]
    assert after == ("/opt/codex", "--config", "model=x", "app-server", "--listen", "stdio://")
    assert argv[argv.index("--budget") + 1] == "codex-sdk"


# --- jupyter ----------------------------------------------------------------------------------


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("ipykernel")
    if why := missing(next(host for host in HOSTS if host.name == "jupyter")):
        pytest.skip(why)
    place = tmp_path / "jupyter" / "kernels" / "k"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(
        f"""{{"argv": ["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"],
        "display_name": "k", "language": "python", "metadata": {{"kernel_provisioner":
        {{"provisioner_name": "lastout-provisioner", "config": {{"state": "{tmp_path}/state"}}}}}}}}"""
    )
    yield f"""
        import asyncio, os, signal, sys, time
        os.environ["JUPYTER_PATH"] = {str(tmp_path / "jupyter")!r}
        from jupyter_client import AsyncKernelManager

        async def ask(client, code):
            reply = await client.execute_interactive(code, timeout=60, output_hook=lambda m: None)
            return reply["content"]

        async def begin():
            manager = AsyncKernelManager(kernel_name="k")
            await manager.start_kernel()
            client = manager.client()
            client.start_channels()
            await client.wait_for_ready(timeout=60)
            return manager, client
    """


@pytest.mark.timeout(120)
def test_jupyter_interrupt_restart_and_kill(kernel: str) -> None:
    program = textwrap.dedent(kernel) + textwrap.dedent(
        """
        async def main():
            manager, client = await begin()
            busy = asyncio.create_task(ask(client, "import time; print(1); time.sleep(60)"))
            await asyncio.sleep(1)
            await manager.interrupt_kernel()
            print((await busy)["ename"])
            left = "import subprocess; p = subprocess.Popen(['setsid', 'sleep', '60'])"
            print((await ask(client, left))["status"])
            first = manager.provisioner.process
            await manager.restart_kernel(now=True)
            await client.wait_for_ready(timeout=60)
            print(first.outcome.tree_gone, len(first.outcome.stopped) > 0)
            print((await ask(client, "1 + 1"))["status"])
            last = manager.provisioner.process
            await manager.shutdown_kernel(now=True)
            print(last.outcome.tree_gone)
            client.stop_channels()

        asyncio.run(main())
        """
    )
    assert run(program).split() == ["KeyboardInterrupt", "ok", "True", "True", "ok", "True"]


@pytest.mark.timeout(120)
def test_jupyter_refuses_an_independent_kernel(kernel: str) -> None:
    program = textwrap.dedent(kernel) + textwrap.dedent(
        """
        async def main():
            manager = AsyncKernelManager(kernel_name="k")
            try:
                await manager.start_kernel(independent=True)
            except ValueError as error:
                print(error)

        asyncio.run(main())
        """
    )
    assert "local-provisioner" in run(program)


# --- trio -------------------------------------------------------------------------------------


def test_trio_a_stopped_front_is_continued(tmp_path: Path) -> None:
    pytest.importorskip("trio")
    program = """
        import os, signal, sys, trio, lastout
        from lastout.integrations.trio import deliver_cancel

        async def main():
            command = lastout.command(["sleep", "60"], graces="trio", stdin_end="ignore",
                                      record=True, state=sys.argv[1])
            async with trio.open_nursery() as nursery:
                process = await nursery.start(lambda task_status: trio.run_process(
                    command, check=False, deliver_cancel=deliver_cancel("trio"),
                    task_status=task_status))
                os.kill(process.pid, signal.SIGSTOP)
                nursery.cancel_scope.cancel()
            print(process.returncode)

        trio.run(main)
    """
    assert run(program, str(tmp_path)) == "-15\n"


# --- dask -------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_dask_a_cluster_computes_and_leaves_nobody(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    program = """
        import asyncio, sys
        from distributed import Client, Scheduler, SpecCluster
        from lastout.integrations.dask import Worker

        async def main():
            options = {"state": sys.argv[1],
                       "worker_kwargs": {"nthreads": 1, "dashboard_address": None}}
            scheduler = {"cls": Scheduler, "options": {"dashboard_address": None, "port": 0,
                                                       "host": "127.0.0.1"}}
            async with SpecCluster(workers={0: {"cls": Worker, "options": options}},
                                   scheduler=scheduler, asynchronous=True) as cluster:
                async with Client(cluster, asynchronous=True) as client:
                    await client.wait_for_workers(1)
                    print(await client.submit(sum, [1, 2, 3]))
                process = cluster.workers[0].process
            print(process.outcome.tree_gone)

        if __name__ == "__main__":
            asyncio.run(main())
    """
    assert run(program, str(tmp_path)).split() == ["6", "True"]


# --- pytest -----------------------------------------------------------------------------------


def test_the_fixture_fails_a_test_that_leaves_somebody(tmp_path: Path) -> None:
    test = """
        import subprocess

        def test_tidy(no_survivors):
            subprocess.run(["true"])

        def test_rude(no_survivors):
            subprocess.run(["sh", "-c", "(setsid sleep 61 >/dev/null 2>&1 &)"])

        def test_after(no_survivors):
            pass
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(test))
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["lastout.integrations.pytest"]\n')
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        env=ENV,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "3 passed, 1 error" in done.stdout, done.stdout
    assert "left running by this test" in done.stdout
    assert "sleep 61" in done.stdout
