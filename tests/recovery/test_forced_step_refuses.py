"""The forced step where it must not act: what is ambiguous, not permitted, or asked for from below."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from harness import Scene
from harness.forcing import target, untouched
from harness.run import Run
from lastout import forced, sweep, tree
from lastout.forced import Target, force
from lastout.verdict import Verdict

Change = Callable[[Target, Run, pytest.MonkeyPatch], Target]


def _no_record(aim: Target, run: Run, patch: pytest.MonkeyPatch) -> Target:
    return replace(aim, record=aim.record + ".gone" if aim.record else None)


def _torn_record(aim: Target, run: Run, patch: pytest.MonkeyPatch) -> Target:
    path = Path(str(aim.record) + ".torn")
    path.write_text('{"v":1,"event":"started","run":"r"')
    return replace(aim, record=str(path))


def _other_keeper(aim: Target, run: Run, patch: pytest.MonkeyPatch) -> Target:
    return replace(aim, keeper=replace(aim.keeper, start=aim.keeper.start + 1))


def _other_front_without_a_record(aim: Target, run: Run, patch: pytest.MonkeyPatch) -> Target:
    return replace(aim, front=replace(aim.root), root=aim.front, record=None)


def _other_namespace(aim: Target, run: Run, patch: pytest.MonkeyPatch) -> Target:
    return replace(aim, root=replace(aim.root, pidns=1), record=None)


def _unreadable_table(aim: Target, run: Run, patch: pytest.MonkeyPatch) -> Target:
    def unreadable(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "hidden")

    patch.setattr(tree, "children", unreadable)
    return aim


def _unreadable_stat(aim: Target, run: Run, patch: pytest.MonkeyPatch) -> Target:
    def unreadable(*args: object) -> None:
        raise PermissionError(13, "hidden")

    for module in (tree, sweep, forced):
        patch.setattr(module, "read_stat", unreadable)
    return aim


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (_no_record, "record-unreadable"),
        (_torn_record, "record-unreadable"),
        (_other_keeper, "not-the-supervisor"),
        (_other_front_without_a_record, "not-the-supervisor"),
        (_other_namespace, "cannot-tell"),
        (_unreadable_table, "table-unreadable"),
        (_unreadable_stat, "table-unreadable"),
    ],
)
def test_what_is_ambiguous_kills_nothing_and_resumes_both(
    scene: Scene, change: Change, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scene.run("root [daemon escapee ]")
    members = [scene.member("root"), scene.member("escapee")]
    with monkeypatch.context() as patch:
        verdict = force(change(target(run), run, patch))
    assert (verdict.kind, verdict.how) == ("unproven", how)
    untouched(run, members)
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


@pytest.mark.root
def test_a_kill_that_is_not_permitted_touches_nothing(scene: Scene) -> None:
    run = scene.run("root")
    root = scene.member("root")
    aim = target(run)
    assert aim.record is not None
    for folder in (Path(aim.record), *Path(aim.record).parents[:3]):
        folder.chmod(0o755)
    verdict = as_another_user(lambda: force(aim))
    assert (verdict["kind"], verdict["how"]) == ("unproven", "not-delivered")
    untouched(run, [root])
    run.signal(SIGTERM)
    run.ends(signal=SIGTERM)


def as_another_user(step: Callable[[], Verdict]) -> dict[str, Any]:
    import json

    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(write, json.dumps(step().to_json()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb") as file:
        told = file.read()
    os.waitpid(pid, 0)
    return dict(json.loads(told))


def test_a_descendant_of_the_run_cannot_take_it(scene: Scene) -> None:
    """Also one that was orphaned, and one in a session of its own."""
    code = (
        "import os, sys\n"
        "from lastout.recovery import case as cases\n"
        "from lastout.recovery.act import recover\n"
        "from lastout.recovery.case import Asker\n"
        "from lastout.forced import Target, force\n"
        "if os.fork(): os.wait(); sys.exit(0)\n"
        "os.setsid()\n"
        "known = cases.read(cases.of_record(sys.argv[1]))\n"
        "aim = Target('r', known.front, known.keeper, known.root, record=sys.argv[1])\n"
        "print(force(aim).how, flush=True)\n"
    )
    record = scene.directory / "inside.jsonl"
    run = scene.run(
        [sys.executable, "-c", code, str(record)], record=record, stdin="null", graces=None
    )
    run.ends(code=0)
    assert run.output_text().strip() == "asked-from-inside"
