"""Which program is started: the native agent behind npm's wrapper, and what is said when it is not there."""

from __future__ import annotations

import os
import shutil

import pytest

from lastout.agents import AgentMissing, AgentTooOld, agent
from lastout.agents.install import find, native_beside

pytestmark = pytest.mark.anyio

PACKAGE = "@openai/codex"


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


@pytest.fixture
def wrapper(tmp_path):
    """npm's layout: bin/codex is a link to a script in the package."""
    modules = tmp_path / "node_modules"
    made = script(modules / PACKAGE / "bin" / "codex.js", "echo codex-cli 0.171.0")
    link = modules / ".bin" / "codex"
    link.parent.mkdir()
    link.symlink_to(made)
    return link


def search(program, path="/usr/bin:/bin", oldest="0.1.0"):
    env = {"PATH": path}
    return find("codex", given=program, env=env, package=PACKAGE, oldest=oldest)


@pytest.mark.parametrize("where", ["beside", "inside"])
async def test_the_native_program_is_found_behind_the_wrapper(wrapper, where):
    modules = wrapper.parent.parent
    inside = modules / PACKAGE / "node_modules" if where == "inside" else modules
    native = inside / f"{PACKAGE}-linux-x64" / "vendor" / "x86_64-unknown-linux-musl" / "bin"
    native.mkdir(parents=True)
    shutil.copy("/bin/true", native / "codex")
    assert native_beside(str(wrapper), PACKAGE, "codex") == str(native / "codex")


async def test_only_a_wrapper_is_started_as_it_is_and_said_so(wrapper):
    found = await search(str(wrapper))
    assert (found.path, found.version) == (str(wrapper), "0.171.0")
    assert found.notice is not None
    assert "only a wrapper of codex was found" in found.notice


async def test_on_path(wrapper):
    found = await search(None, path=f"{wrapper.parent}:/usr/bin:/bin")
    assert found.path == str(wrapper)


@pytest.mark.parametrize("what", ["missing", "a directory", "not executable"])
async def test_what_cannot_be_executed_is_missing(tmp_path, what):
    path = tmp_path / "codex"
    if what == "a directory":
        path.mkdir()
    elif what == "not executable":
        path.write_text("x")
    with pytest.raises(AgentMissing, match=r"codex 0.1.0 or newer is needed \(npm install -g"):
        await search(str(path))


async def test_a_program_that_tells_no_version_is_none_of_ours(tmp_path):
    with pytest.raises(AgentMissing, match="does not tell its version"):
        await search(str(script(tmp_path / "codex", "echo hello")))


async def test_the_version_is_compared_by_numbers_and_asked_again_when_the_file_changes(tmp_path):
    program = script(tmp_path / "codex", "echo 0.9.9")
    with pytest.raises(AgentTooOld, match=r"is codex 0\.9\.9: codex 0\.10\.0 or newer"):
        await search(str(program), oldest="0.10.0")
    script(program, "echo codex 0.11.0 newer")
    os.utime(program, (1, 1))
    assert (await search(str(program), oldest="0.10.0")).version == "0.11.0"


def test_agents_by_name(tmp_path):
    assert agent("codex").name == "codex"
    assert agent("claude").name == "claude"
    assert agent("acp:some agent").name == "acp"
    assert agent("command:sh -c 'cat'").name == "command"
    assert agent("scripted:--lock", home=str(tmp_path)).name == "scripted"
    for wrong in ("nobody", "acp", "command:", "scripted"):
        with pytest.raises(ValueError, match=r"no agent|needs"):
            agent(wrong)
