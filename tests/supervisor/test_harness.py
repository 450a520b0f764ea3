"""The proof that nothing is left must itself be able to fail."""

from __future__ import annotations

import os
import signal

from harness import Scene, leftovers, program
from harness.scene import actor


def test_an_escaped_process_is_found_by_its_place(scene: Scene) -> None:
    popen = scene.start(actor("root [daemon escapee ignore ]"))
    escapee = scene.member("escapee")
    scene.member("root").signal(signal.SIGKILL)
    scene.member("root").wait_gone()
    os.waitpid(popen.pid, 0)
    popen.returncode = -9
    assert [f"pid {escapee.pid} " in text for text in scene.strangers()] == [True]
    assert escapee.alive()
    leftovers.sweep(scene.before)
    escapee.wait_gone()
    assert scene.strangers() == []


def test_a_zombie_is_not_alive_but_one_with_a_running_thread_is(scene: Scene) -> None:
    popen = scene.start(actor("root [ dead exit=3 ] [ half thread ]"))
    scene.member("root")
    dead, half = scene.member("dead"), scene.member("half")
    dead.wait_gone()
    assert dead.state() == "Z"
    assert not dead.identity.alive()
    half.wait_state("Z")
    assert half.identity.alive()
    assert half.alive()
    assert not half.gone
    half.dismiss()
    scene.member("root").dismiss()
    os.waitpid(popen.pid, 0)
    popen.returncode = 0


def test_a_killed_owner_leaves_its_child_to_the_test(scene: Scene) -> None:
    scene.start([program("owner"), "--", *actor("child")])
    owner, child = scene.member("owner"), scene.member("child")
    owner.signal(signal.SIGKILL)
    child_stat = leftovers.read_stat(child.pid)
    owner.wait_gone()
    scene.hub.look(lambda: leftovers.read_stat(child.pid).ppid == os.getpid(), "adopted")
    assert child_stat is not None
    assert len(scene.strangers()) == 1
    child.dismiss()
