"""--contain pidns: what the root finds inside, and that the namespace ends with its init."""

from __future__ import annotations

import shutil
from pathlib import Path
from signal import SIGKILL, SIGSTOP, SIGTERM

import pytest

from harness import Scene
from harness.tiers import needs_pidns

pytestmark = [pytest.mark.root, needs_pidns]


def output(scene: Scene, shell: str, *options: str, **more: object) -> str:
    run = scene.run(["sh", "-c", shell], "--contain", "pidns", *options, **more)  # type: ignore[arg-type]
    run.ends(code=0)
    return run.output_text().strip()


def test_the_root_is_not_pid_1_and_proc_is_right(scene: Scene) -> None:
    found = output(
        scene, "echo $$; read -r pid rest < /proc/self/stat; echo $pid; cat /proc/1/comm"
    )
    inside, self_pid, init = found.split()
    assert int(inside) == 2
    assert int(self_pid) in range(2, 10), "/proc shows the namespace's own numbers"
    assert init == "lastout-init"


def test_the_root_can_abort_and_be_terminated_by_default(scene: Scene) -> None:
    # As pid 1 a SIGTERM without a handler would be ignored.
    run = scene.run(["sh", "-c", "kill -TERM $$; sleep 60"], "--contain", "pidns")
    run.ends(signal=SIGTERM)


def test_outside_its_pids_are_those_of_the_record(scene: Scene) -> None:
    run = scene.run("root", "--contain", "pidns")
    member = scene.member("root")
    assert run.started["root"]["pid"] == member.pid
    assert run.started["init"]["pid"] == int(
        Path(f"/proc/{member.pid}/stat").read_text().split()[3]
    )
    member.tell("exit 3")
    run.ends(code=3)


def test_orphans_are_reaped_inside(scene: Scene) -> None:
    found = output(
        scene,
        "i=0; while [ $i -lt 300 ]; do (true &); i=$((i+1)); done; sleep 0.2; "
        "n=0; for s in /proc/[0-9]*/stat; do read -r line < $s || continue; "
        'case "${line##*) }" in Z*) n=$((n+1));; esac; done; echo $n',
    )
    assert int(found) <= 1


def test_a_killed_init_takes_everything_along(scene: Scene) -> None:
    run = scene.run("root ignore [daemon left ignore ]", "--contain", "pidns")
    scene.member("root")
    run.named("init").signal(SIGKILL)
    run.wait()
    run.nobody_left()
    assert not run.all("root-exited"), "nobody saw the root's end, so nobody tells it"
    assert run.events[-1]["proof"] == "pidns"


def test_an_init_that_is_stopped_still_reports_the_roots_end(scene: Scene) -> None:
    run = scene.run("root ignore", "--contain", "pidns")
    scene.member("root")
    init = run.named("init")
    init.signal(SIGSTOP)
    init.wait_state("T")
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    assert run.event("root-exited")["signal"] == "KILL"


def test_it_ends_with_its_keeper_without_a_grace(scene: Scene) -> None:
    run = scene.run("root note=TERM [daemon left ignore ]", "--contain", "pidns")
    scene.member("root")
    run.keeper.signal(SIGKILL)
    run.wait()
    run.nobody_left()
    assert run.event("stop", trigger="peer-lost")["term_grace_ms"] == 0
    assert scene.member("root").arrivals(SIGTERM) == 0


@pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")
def test_bubblewrap_nests_inside(scene: Scene) -> None:
    bwrap = "bwrap --ro-bind / / --proc /proc --unshare-pid --die-with-parent --new-session"
    assert output(scene, f"{bwrap} sh -c 'echo inside $$'").startswith("inside")


@pytest.mark.skipif(
    Path("/proc/sys/kernel/unprivileged_userns_clone").exists()
    and Path("/proc/sys/kernel/unprivileged_userns_clone").read_text().strip() == "0",
    reason="user namespaces are off",
)
def test_without_privilege_it_comes_with_a_user_namespace(scene: Scene, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    run = scene.run(
        "root ignore [daemon left ignore ]",
        "--contain",
        "pidns",
        via=[*scene.program("enter"), "--uid", "65534", "--"],
        record=False,
    )
    scene.member("root")
    assert Path(f"/proc/{scene.member('root').pid}").stat().st_uid == 65534
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)
    run.nobody_left()


def test_leftovers_wait_is_refused(scene: Scene) -> None:
    run = scene.run("root", "--contain", "pidns", "--leftovers", "wait")
    run.ends(code=125)
    assert "--leftovers wait" in run.error_text()
