"""What the agent leaves behind: found however it hid, named with identity, given its grace, ended."""

from __future__ import annotations

from pathlib import Path
from signal import SIGSTOP, SIGTERM
from typing import Any

import pytest

from harness import Member, Scene, program
from harness.run import Run, between_ms

# Every leftover says hello as "left".
KINDS = {
    "child": "[ left ignore ]",
    "own group": "[ left setpgid ignore ]",
    "setsid": "[ left setsid ignore ]",
    "double fork": "[orphan left ignore ]",
    "classic daemon": "[daemon left null ignore ]",
    "CLONE_PARENT": "[sibling left setsid ignore ]",
    "no exit signal": "[silent left setsid ignore ]",
    "vfork": "[daemon middle ignore [vfork left ignore ] ]",
    "nested subreaper": "[daemon reaper subreaper ignore [daemon left ignore ] ]",
    "tree below": "[daemon top ignore [ mid setsid ignore [ left setpgid ignore ] ] ]",
    "leader thread ended": "[daemon left ignore thread ]",
    "traced": "[daemon left ignore ] [daemon tracer ignore trace=left ]",
    "zombie beside it": "[daemon left ignore [ dead exit=9 ] ]",
}


def play(kind: str) -> str:
    # A tracer needs the pid of what it traces, so that one is a plain child in a session of its own.
    return KINDS[kind].replace("[daemon left ignore ] [", "[ left setsid ignore ] [")


def same(member: dict[str, Any], who: Member) -> bool:
    return (member["pid"], member["start"]) == (who.identity.pid, who.identity.start)


def assert_named(run: Run, who: Member) -> None:
    members = run.event("leftovers")["members"]
    assert any(same(member, who) for member in members), (who, members)


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_with_the_root(scene: Scene, kind: str) -> None:
    run = scene.run(f"root term=exit:0 {play(kind)}")
    left = scene.member("left")
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert left.gone
    assert_named(run, left)
    assert run.event("tree-gone")["remaining"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_after_the_roots_own_exit(scene: Scene, kind: str) -> None:
    run = scene.run(f"root {play(kind)}", graces=(0.2, 0.3, 5.0))
    left = scene.member("left")
    scene.member("root").tell("exit 7")
    run.ends(code=7)
    assert left.gone
    assert_named(run, left)
    run.event("stop", trigger="root-exited")
    gone = run.event("tree-gone")
    assert any(same(identity, left) for identity in gone["stopped"])


def test_a_stopped_leftover_hears_sigterm(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left term=exit:0 ]", graces=(0.2, 10.0, 5.0))
    left = scene.member("left")
    scene.member("root")
    left.signal(SIGSTOP)
    left.wait_state("T")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert not run.all("signalled", signal="KILL"), "SIGTERM and SIGCONT were enough"


def test_a_stopped_leftover_that_ignores_sigterm_is_killed(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left ignore ]")
    left = scene.member("left")
    scene.member("root")
    left.signal(SIGSTOP)
    left.wait_state("T")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


@pytest.mark.root
def test_in_a_nested_pid_namespace(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [pidns init ignore [daemon left ignore ] ]")
    left = scene.member("left")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert left.gone


@pytest.mark.parametrize("name", ["a) Z 1 (\n", ") ) )", 'x\ty\\"', "\xff\xfe"])
def test_a_name_made_to_confuse_readers(scene: Scene, name: str) -> None:
    words = ["root", "term=exit:0", "[daemon", "left", "ignore", f"name={name}", "]"]
    run = scene.run([program("actor"), *words])
    left = scene.member("left")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    [member] = [m for m in run.event("leftovers")["members"] if same(m, left)]
    assert member["name"] == name
    assert member["state"] in "RSDT", "and not the Z of such a name"
    assert member["session"] == member["pgid"] != left.pid


def test_one_that_needs_half_the_grace_gets_it_though_the_root_ignores_sigterm(
    scene: Scene,
) -> None:
    run = scene.run("root ignore [daemon left term=clean:500:0 ]", graces=(0.2, 2.0, 5.0))
    left = scene.member("left")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert "cleaned" in left.notes
    asked = run.event("signalled", signal="TERM", target="root-group")
    others = run.event("signalled", signal="TERM", target="members")
    assert 1000 <= between_ms(asked, others) < 1600
    assert between_ms(others, run.event("signalled", signal="KILL")) >= 500


def test_one_gets_sigterm_as_soon_as_the_root_has_gone(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left term=clean:300:0 ]", graces=(0.2, 20.0, 5.0))
    left = scene.member("left")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert "cleaned" in left.notes
    assert not run.all("signalled", signal="KILL")


def test_the_root_stays_unreaped_until_the_others_have_been_asked(scene: Scene) -> None:
    # Its number names its group until then; reaped, it could be somebody else's.
    run = scene.run("root [ child ignore ] [daemon left ignore ]")
    scene.member("root").tell("exit 0")
    run.ends(code=0)
    names = [(event["event"], event.get("target") or event.get("who")) for event in run.events]
    assert names.index(("signalled", "members")) < names.index(("reaped", "root"))


def test_one_gets_the_whole_grace_after_the_roots_own_exit(scene: Scene) -> None:
    run = scene.run("root [daemon left term=clean:300:0 ]", graces=(0.2, 10.0, 5.0))
    left = scene.member("left")
    scene.member("root").tell("exit 0")
    run.ends(code=0)
    assert "cleaned" in left.notes


def test_all_are_counted_and_256_are_named(scene: Scene) -> None:
    run = scene.run(scene.program("crowd", "300"), graces=(0.2, 0.3, 5.0))
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    line = run.event("leftovers")
    assert (line["count"], len(line["members"]), line["omitted"]) == (300, 256, 44)
    gone = run.event("tree-gone")
    assert gone["stopped_count"] == 300
    assert len(gone["stopped"]) == 256
    assert len({(i["pid"], i["start"]) for i in gone["stopped"]}) == 256


def test_a_deep_chain(scene: Scene) -> None:
    run = scene.run(scene.program("crowd", "120", "chain"), graces=(0.2, 0.3, 5.0))
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert run.event("leftovers")["count"] == 120


@pytest.mark.parametrize(("loops", "hop_us"), [(1, 2000), (8, 300)], ids=["one", "eight"])
def test_forking_faster_than_one_can_list(scene: Scene, loops: int, hop_us: int) -> None:
    run = scene.run(scene.program("hydra", str(loops), str(hop_us)), graces=(0.2, 0.3, 5.0))
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def test_two_that_bring_each_other_back(scene: Scene) -> None:
    run = scene.run(scene.program("respawner"), graces=(0.2, 0.3, 5.0))
    scene.member("root")
    run.close_stdin()
    run.ends(code=0)


@pytest.mark.root
@pytest.mark.parametrize("mode", ["", "setsid"], ids=["plain", "setsid"])
def test_a_fork_bomb_at_its_limit(scene: Scene, mode: str, tmp_path: Path) -> None:
    # A user of its own, so that the limit counts these processes alone.
    tmp_path.chmod(0o755)
    run = scene.run(
        [*scene.program("bomb"), mode],
        "--uid", "54321", "--gid", "54321", "--rlimit", "NPROC=150:150",
        graces=(0.2, 0.3, 5.0),
    )  # fmt: skip
    scene.member("root")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert run.event("tree-gone")["killed_count"] >= 1


def test_waiting_for_leftovers_stops_nothing(scene: Scene) -> None:
    run = scene.run("root [daemon left note=TERM ] [daemon quick ]", "--leftovers", "wait")
    root, left, quick = scene.member("root"), scene.member("left"), scene.member("quick")
    root.tell("exit 4")
    assert run.event("reaped", who="root")["code"] == 4
    assert run.event("leftovers")["count"] == 2
    run.hub.quiet(lambda: run.all("stop") or run.process.gone, 0.3, "a stop or an end")
    assert left.alive()
    # Now that all is quiet, this line must be told by itself.
    quick.tell("exit 9")
    ended = run.event("reaped", who="leftover", pid=quick.pid)
    assert ended["code"] == 9
    assert left.alive()
    left.tell("exit 0")
    run.ends(code=4)
    assert left.arrivals(SIGTERM) == 0


def test_waiting_for_leftovers_still_obeys_a_signal(scene: Scene) -> None:
    run = scene.run("root [daemon left ignore ]", "--leftovers", "wait")
    root = scene.member("root")
    root.tell("exit 4")
    run.event("leftovers")
    run.signal(SIGTERM)
    ended = run.wait()
    run.nobody_left()
    # The root ended before the first signal, so its own status stands.
    assert ended.code == 4
    run.event("stop", trigger="signal", signal="TERM")


def test_agents_tools_in_sessions_of_their_own(scene: Scene) -> None:
    run = scene.run(
        "root stdin=exit:0 term=exit:0 [ tool setsid ] [ stubborn setsid ignore ] [ group setpgid ]"
    )
    tools = [scene.member(role) for role in ("tool", "stubborn", "group")]
    scene.member("root")
    run.close_stdin()
    run.ends(code=0)
    for tool in tools:
        assert_named(run, tool)


def test_a_leftover_that_only_sigkill_ends_is_counted_as_killed(scene: Scene) -> None:
    run = scene.run("root term=exit:0 [daemon left ignore ]")
    scene.member("left")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    line = run.event("signalled", signal="KILL", target="tree")
    assert line["count"] >= 1
    assert run.event("tree-gone")["killed_count"] >= 1
