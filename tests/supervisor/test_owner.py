"""The owner: who may be named, whose death stops the run, and what is not a death."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM

import pytest

from harness import Scene

TREE_OBEYS = "root term=clean:100:0 [ child ignore ] [daemon escapee ignore ]"
TREE_IGNORES = "root ignore [ child ignore ] [daemon escapee ignore ]"


def test_an_owner_that_is_no_ancestor_is_refused(scene: Scene) -> None:
    other = scene.bystander("other")
    run = scene.run("root", "--owner", f"{other.pid}:{other.identity.start}")
    run.ends(code=1)
    assert not scene.all("root"), "nothing was run"
    refused = run.event("refused", reason="owner")
    assert "--owner none" in refused["message"]
    assert "--owner none" in run.error_text()
    assert [event["event"] for event in run.events] == ["refused"]


def test_an_ancestor_with_another_start_time_is_refused(scene: Scene) -> None:
    stat = os.getpid()
    run = scene.run("root", "--owner", f"{stat}:1")
    run.ends(code=1)
    assert not scene.all("root")
    run.event("refused", reason="owner")


def test_an_owner_that_is_dead_before_the_start_is_refused(scene: Scene) -> None:
    other = scene.bystander("other")
    scene.end(other)
    run = scene.run("root", "--owner", f"{other.pid}:{other.identity.start}")
    run.ends(code=1)
    assert not scene.all("root")


@pytest.mark.parametrize("told", [True, False], ids=["told", "parent"])
@pytest.mark.parametrize("tree", [TREE_OBEYS, TREE_IGNORES], ids=["obeys", "ignores"])
def test_owner_killed_while_stdin_is_held_elsewhere(scene: Scene, tree: str, told: bool) -> None:
    options = ["--owner", "@owner@"] if told else []
    run = scene.run(tree, *options, owner=[])
    root = scene.member("root")
    assert run.started["owner_watch"] == ("told" if told else "parent")
    assert run.started["owner"]["pid"] == run.owner.pid
    run.owner.signal(SIGKILL)
    ended = run.wait()
    run.nobody_left()
    stop = run.event("stop", trigger="owner-died")
    assert stop["which"] in ("owner", "parent")
    assert ("cleaned" in root.notes) == (tree is TREE_OBEYS)
    assert (ended.code, ended.signal) == ((0, None) if tree is TREE_OBEYS else (None, SIGKILL))
    assert run.events[-1]["event"] == "tree-gone"


def test_owner_killed_so_that_stdin_ends_as_well(scene: Scene) -> None:
    run = scene.run("root ignore stdin=note [daemon escapee ignore ]", owner=[], stdin="owner")
    scene.member("root")
    run.owner.signal(SIGKILL)
    run.wait()
    run.nobody_left()
    assert len(run.all("stop")) == 1


def test_owner_killed_while_the_root_streams_into_its_pipe(scene: Scene) -> None:
    read_end, write_end = os.pipe()
    run = scene.run(
        scene.program("output", "chatter"),
        owner=["--keep", str(read_end)],
        stdout=write_end,
        fds=[read_end],
    )
    os.close(read_end)
    os.close(write_end)
    root = scene.member("root")
    run.owner.signal(SIGKILL)
    run.wait()
    run.nobody_left()
    run.event("stop", trigger="owner-died")
    assert root.gone


NODE = "require('child_process').spawnSync(process.argv[1],process.argv.slice(2),{stdio:'inherit'})"

WRAPPERS = {
    "sh": ["sh", "-c", '"$@"; :', "sh"],
    "two-shells": ["sh", "-c", 'sh -c "\\"\\$@\\"; :" sh "$@"; :', "sh"],
    "env": ["env"],
    "setsid": ["setsid", "--wait"],
    "timeout": ["timeout", "60"],
    "node": ["node", "-e", NODE, "--"],
    "uv": ["uv", "run", "--no-project", "--offline", "--"],
    # A program that a package of this directory brings; npm, npx and sh stay in between.
    "npx": ["npx", "--offline", "--no-install", "--", "front"],
    # It clears the environment, and would ask for a password where root does not run it.
    "sudo": ["sudo", "-n", "--preserve-env=LASTOUT_TEST_SOCKET,LASTOUT_TEST_TTL", "--"],
}  # fmt: skip


@pytest.mark.still  # sudo stops itself when its child is stopped
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_owner_killed_with_a_wrapper_between(scene: Scene, wrapper: str) -> None:
    name, *rest = WRAPPERS[wrapper]
    # uv comes with the development group, beside this interpreter.
    path = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if path is None:
        pytest.skip(f"needs {name}")
    if wrapper == "sudo" and subprocess.run(["sudo", "-n", "true"], check=False).returncode:
        pytest.skip("needs sudo without a password")
    if wrapper == "npx":
        brought = scene.directory / "node_modules" / ".bin" / "front"
        brought.parent.mkdir(parents=True)
        brought.write_text('#!/bin/sh\n"$@"\n')
        brought.chmod(0o755)
    run = scene.run(TREE_OBEYS, "--owner", "@owner@", owner=[], via=[path, *rest])
    root = scene.member("root")
    front, keeper = run.front, run.keeper
    run.owner.signal(SIGKILL)
    front.wait_gone()
    scene.until(lambda: "cleaned" in root.notes, "the root had its grace")
    assert run.event("stop", trigger="owner-died")["which"] in ("owner", "parent")
    keeper.wait_gone()
    scene.hub.look(lambda: not scene.strangers(), "the wrapper follows")


def test_a_killed_wrapper_is_an_owner_death_as_well(scene: Scene) -> None:
    run = scene.run(
        TREE_OBEYS, "--owner", "@owner@", owner=[],
        via=[*scene.program("owner"), "--role", "wrapper", "--"],
    )  # fmt: skip
    wrapper = scene.member("wrapper")
    root = scene.member("root")
    wrapper.signal(SIGKILL)
    run.front.wait_gone()
    assert run.event("stop", trigger="owner-died")["which"] == "parent"
    assert "cleaned" in root.notes
    run.nobody_left()


def test_owner_below_another_subreaper(scene: Scene) -> None:
    # The front's new parent is then neither pid 1 nor the one that is ours to wait.
    run = scene.run(
        TREE_OBEYS, owner=["--subreaper"],
        via=[*scene.program("owner"), "--role", "inner", "--"],
    )  # fmt: skip
    inner = scene.member("inner")
    root = scene.member("root")
    inner.signal(SIGKILL)
    run.front.wait_gone()
    run.event("stop", trigger="owner-died")
    assert "cleaned" in root.notes


@pytest.mark.parametrize("round_", range(10))
def test_owner_killed_during_the_spawn(scene: Scene, round_: int) -> None:
    # Told: a front that finds its parent gone already cannot know who else it was.
    run = scene.run(
        "root ignore [daemon escapee ignore ]", "--owner", "@owner@", owner=[],
        graces=(0.1, 0.2, 5.0),
    )  # fmt: skip
    for _ in range(round_ * round_ * 50):
        os.getppid()
    run.owner.signal(SIGKILL)
    run.wait()
    run.nobody_left()


def test_owner_that_executes_itself_again_is_not_dead(scene: Scene) -> None:
    run = scene.run("root term=exit:0", "--owner", "@owner@", owner=[])
    root = scene.member("root")
    run.owner.tell("reexec")
    run.owner.wait_note("resumed")
    run.hub.quiet(lambda: run.all("stop"), 0.3, "a stop")
    assert root.alive()
    run.owner.signal(SIGKILL)
    run.wait()
    run.event("stop", trigger="owner-died")


@pytest.mark.parametrize("flags", [["--thread"], ["--leader-ends"]], ids=["thread", "leader"])
def test_a_thread_of_the_owner_that_ends_is_no_death(scene: Scene, flags: list[str]) -> None:
    run = scene.run("root term=exit:0", owner=flags)
    root = scene.member("root")
    if flags == ["--leader-ends"]:
        run.owner.wait_note("leader-ends")
        run.owner.wait_state("Z")
    run.hub.quiet(lambda: run.all("stop") or root.gone, 0.3, "a stop")
    assert root.alive()
    run.owner.signal(SIGKILL)
    run.wait()
    run.event("stop", trigger="owner-died")


def test_a_stopped_owner_is_not_dead(scene: Scene) -> None:
    run = scene.run("root", owner=[])
    root = scene.member("root")
    run.owner.signal(SIGSTOP)
    run.owner.wait_state("T")
    run.hub.quiet(lambda: run.all("stop"), 0.3, "a stop")
    assert root.alive()
    run.owner.signal(SIGCONT)
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_owner_none_outlives_its_parent(scene: Scene) -> None:
    run = scene.run("root", "--owner", "none", owner=[])
    root = scene.member("root")
    assert (run.started["owner_watch"], run.started["owner"]) == ("none", None)
    run.owner.signal(SIGKILL)
    run.owner.wait_gone()
    run.hub.quiet(lambda: run.all("stop"), 0.3, "a stop")
    assert root.alive()
    root.tell("exit 6")
    assert run.wait().code == 6
    run.nobody_left()


@pytest.mark.root
def test_the_owner_may_be_pid_1_of_a_container(scene: Scene) -> None:
    unshare = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child", "--"]
    run = scene.run(
        "root term=exit:0", "--owner", "@owner@",
        via=[*unshare, *scene.program("owner"), "--role", "container", "--"],
    )  # fmt: skip
    root = scene.member("root")
    started = run.started
    assert (started["owner"]["pid"], started["owner_watch"]) == (1, "told")
    run.hub.quiet(lambda: run.all("stop"), 0.2, "a stop")
    assert root.alive()
    root.tell("exit 0")
    scene.until(lambda: scene.member("container").child_status is not None, "the front has ended")
    assert scene.member("container").child_status == 0
    scene.member("container").dismiss()
    run.wait()
    run.nobody_left()


@pytest.mark.root
def test_a_parent_that_is_pid_1_is_not_watched_unless_told(scene: Scene) -> None:
    unshare = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child", "--"]
    run = scene.run("root", via=[*unshare, *scene.program("owner"), "--role", "container", "--"])
    root = scene.member("root")
    assert (run.started["owner_watch"], run.started["owner"]) == ("none", None)
    root.tell("exit 3")
    scene.until(lambda: scene.member("container").child_status is not None, "the front has ended")
    assert os.WEXITSTATUS(scene.member("container").child_status) == 3
    scene.member("container").dismiss()
    run.wait()
    run.nobody_left()
