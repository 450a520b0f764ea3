"""--contain cgroup: what only this tier can end, and what it leaves behind: nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from signal import SIGTERM

import pytest

from harness import Scene
from harness.programs import program
from harness.setuid import NOBODY, setuid_tools, with_setuid_tool
from harness.tiers import cgroup_of, needs_cgroup, own_cgroup

pytestmark = [pytest.mark.root, needs_cgroup]


@pytest.fixture
def delegated() -> Iterator[Path]:
    """A cgroup that an ordinary user owns, with what delegation hands over."""
    here = own_cgroup()
    assert here is not None
    path = here / f"lastout-test-{os.getpid()}"
    path.mkdir()
    for name in (".", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(path / name, NOBODY, NOBODY)
    yield path
    (here / "cgroup.procs").write_text(str(os.getpid()))
    for below in path.glob("lastout-*"):
        below.rmdir()
    path.rmdir()


def test_each_run_has_a_cgroup_of_its_own_while_it_lasts(scene: Scene) -> None:
    runs = [scene.run("root", "--contain", "cgroup") for _ in range(2)]
    scene.until(lambda: len(scene.all("root")) == 2, "both run")
    first, second = (cgroup_of(run) for run in runs)
    assert first != second
    for run in runs:
        directory = cgroup_of(run)
        assert directory.stat().st_ino == run.started["cgroup_id"]
        assert (directory / "cgroup.procs").read_text().split() == [str(run.started["root"]["pid"])]
    for member in scene.all("root"):
        member.tell("exit 0")
    for run in runs:
        run.wait()  # both: the guard of one is a stranger to the other
    for run in runs:
        run.ends(code=0)
    assert not first.exists()
    assert not second.exists()


def test_cgroups_that_the_tree_made_below_go_with_it(scene: Scene) -> None:
    shell = (
        'd=$(sed -n s/^0::/$0/p /proc/self/cgroup); mkdir -p "$d/a/b"; '
        'echo $$ > "$d/a/b/cgroup.procs"; exec "$1" root ignore'
    )
    own = Path("/proc/self/cgroup").read_text().partition("0::")[2].splitlines()[0]
    mount = str(own_cgroup()).removesuffix("/").removesuffix(own.removesuffix("/"))
    shell = shell.replace("s/^0::/$0/p", "'s#^0::#" + mount + "#p'")
    run = scene.run(["sh", "-c", shell, "sh", program("actor")], "--contain", "cgroup")
    scene.member("root")
    directory = cgroup_of(run)
    assert (directory / "a" / "b" / "cgroup.procs").read_text().split()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert not directory.exists()


def test_a_set_uid_root_tool_is_ended_without_privilege(
    scene: Scene, tmp_path: Path, delegated: Path
) -> None:
    # The default tier cannot: its signals are refused (test_emptiness_proof).
    with setuid_tools(tmp_path) as tools:
        enter = [*scene.program("enter"), "--uid", str(NOBODY), "--"]
        join = f'echo $$ > "{delegated}/cgroup.procs"; exec "$@"'
        run = scene.run(
            with_setuid_tool(tools),
            "--contain",
            "cgroup",
            via=["sh", "-c", join, "sh", *enter],
            binary=str(tools / "supervisor"),
        )
        scene.member("root")
        scene.member("left")
        run.signal(SIGTERM)
        run.ends(signal=SIGTERM)
        assert run.events[-1]["proof"] == "cgroup"
        run.nobody_left()


def test_who_moved_into_a_foreign_pid_namespace_is_found_and_ended(scene: Scene) -> None:
    # Below such a namespace an orphan goes to that namespace's init: the subreaper never sees it.
    foreign = scene.bystander("foreign-owner")
    foreign.tell("spawn [pidns init ]")
    scene.expect(scene.member("init"))
    init = int(Path(f"/proc/{foreign.pid}/task/{foreign.pid}/children").read_text().split()[0])
    shell = f'nsenter -t {init} -p "$0" middle [daemon escapee ignore ] & wait'
    run = scene.run(["sh", "-c", shell, program("actor")], "--contain", "cgroup")
    escapee = scene.member("escapee")
    assert f"\nPPid:\t{init}\n" in Path(f"/proc/{escapee.pid}/status").read_text()
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    scene.until(lambda: escapee.gone, "the escapee is gone")
    assert run.event("signalled", target="members")["count"] >= 1, "asked politely, too"
    assert scene.member("init").alive(), "whose namespace it was is no member"


def test_without_a_writable_cgroup_nothing_is_started(scene: Scene, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    run = scene.run(
        "root",
        "--contain",
        "cgroup",
        via=[*scene.program("enter"), "--uid", str(NOBODY), "--"],
        record=False,
    )
    run.ends(code=125)
    assert "--contain cgroup" in run.error_text()
    assert not scene.all("root")


def test_ended_from_outside_with_only_the_record(scene: Scene) -> None:
    run = scene.run("root ignore [daemon left ignore ]", "--contain", "cgroup")
    scene.member("root")
    (cgroup_of(run) / "cgroup.kill").write_text("1")
    run.wait()
    run.nobody_left()
    assert run.event("root-exited")["signal"] == "KILL"
