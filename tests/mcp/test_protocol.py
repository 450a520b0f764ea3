"""The protocol itself: versions, tools, bad arguments, ends; and that stdout carries nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from client import SOURCE
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

TOOLS = [
    "ask_agent",
    "spawn_agent",
    "job_status",
    "job_result",
    "job_message",
    "job_answer",
    "job_cancel",
    "job_list",
    "run_command",
    "service_start",
]


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
def test_initialize_with_each_version_that_the_sdk_supports(connect, version):
    client = connect(hello=False)
    told = client.start(version)
    assert (told["protocolVersion"], told["serverInfo"]["name"]) == (version, "lastout")
    tools = client.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == TOOLS
    assert client.call("job_list") == {"jobs": []}


@pytest.mark.parametrize("version", MODERN_PROTOCOL_VERSIONS)
def test_a_client_without_a_handshake(connect, version):
    client = connect(hello=False)
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    told = client.ask("server/discover", _meta=meta)["result"]
    assert version in told["supportedVersions"]
    answer = client.ask("tools/call", name="job_list", arguments={}, _meta=meta)["result"]
    assert answer["structuredContent"] == {"jobs": []}


def test_every_tool_says_what_it_takes_and_gives(shared):
    jsonschema = pytest.importorskip("jsonschema")
    for tool in shared.ask("tools/list")["result"]["tools"]:
        assert tool["title"]
        assert len(tool["description"]) > 40
        for schema in (tool["inputSchema"], tool["outputSchema"]):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert "$ref" not in json.dumps(schema), "not every client resolves references"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("ask_agent", {"agent": "codex"}, ["`prompt`", "It takes agent (needed), prompt (needed)"]),
        ("ask_agent", {"agent": "codex", "prompt": ""}, ["length >= 1", "$.prompt"]),
        ("ask_agent", {"agent": "codex", "prompt": "x", "cwd": "/no/such"}, ["is not a directory"]),
        ("ask_agent", {"agent": "codex", "prompt": "x", "timeout": 5}, ["`timeout`", "timeout_s"]),
        ("ask_agent", {"agent": "codex", "prompt": "x", "timeout_s": "5"}, ["got `str`"]),
        ("ask_agent", {"agent": "nobody", "prompt": "x"}, ["no agent is named 'nobody'"]),
        ("run_command", {"command": []}, ["length >= 1", "$.command"]),
        ("run_command", {"command": ["true"], "name": "a b"}, ["$.name"]),
        ("job_status", {"job": "nothing"}, ["nothing"]),
        ("job_result", {"job": "nothing", "wait_s": 5}, ["nothing"]),
        ("job_cancel", {"job": "nothing"}, ["nothing"]),
        ("job_message", {"job": "nothing", "text": "x"}, ["nothing"]),
        ("job_answer", {"job": "nothing", "choice": "allow"}, ["nothing"]),
        ("job_list", {"states": ["failed"]}, ["'failed'", "$.states", "(one of 'ended', 'idle'"]),
        ("service_start", {"name": "nothing"}, ["no service 'nothing'"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_arguments_are_told_in_words(shared, tool, arguments, says):
    text = shared.refused(tool, **arguments)
    assert all(word in text for word in says), text
    assert "Traceback" not in text
    assert shared.call("job_list", whose="all") == {"jobs": []}, "nothing was begun"


def test_null_is_as_good_as_left_out(connect):
    done = connect().call("run_command", command=["true"], cwd=None, name=None, background=None)
    assert done["result"]["exit_code"] == 0


def test_rubbish_is_answered_and_disturbs_nothing(shared):
    client = shared
    client.write(b'{"jsonrpc": "2.0", "id": 1, \n')
    assert client.until(lambda line: "error" in line)["error"]["code"] == -32700
    client.write(b'"just a word"\n')
    assert client.until(lambda line: "error" in line)["error"]["code"] == -32700
    client.write(b"x" * (17 << 20) + b"\n")
    error = client.until(lambda line: "error" in line)["error"]
    assert (error["code"], "17825792 bytes" in error["message"]) == (-32600, True)
    assert client.ask("tools/call", name="dance", arguments={})["error"]["code"] == -32602
    assert client.call("job_list") == {"jobs": []}


def test_stdout_carries_the_protocol_alone(connect, tmp_path):
    """Whatever prints: here each start of a process does, as print and past Python."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "def loud(event, arguments):\n"
        "    if event == 'subprocess.Popen':\n"
        "        print('noise', flush=True)\n"
        "        os.write(1, b'more noise\\n')\n"
        "sys.addaudithook(loud)\n"
    )
    client = connect(env={"PYTHONPATH": f"{tmp_path}:{SOURCE}"})
    assert client.call("run_command", command=["true"])["result"]["exit_code"] == 0


def test_what_a_script_pipes_in_is_answered_before_the_end(connect):
    client = connect()
    client.send("tools/list")
    number = client.begin("job_list")
    client.process.stdin.close()
    assert client.answer(number)["structuredContent"] == {"jobs": []}
    assert client.process.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_also_when_nobody_reads(connect, number):
    client = connect()
    # More than a pipe holds: the server waits to write.
    for _ in range(20):
        client.send("tools/list")
    client.process.send_signal(number)
    assert client.process.wait(10) == 0


def test_stdin_that_ended_before_the_start(state):
    argv = [sys.executable, "-m", "lastout", "mcp", "--state", str(state)]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, env=env, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"")
