"""A service is provisioned once by its owner, and started by name alone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lastout import above
from lastout.services import errors, layout, wire
from lastout.services.activation import ids
from lastout.services.store import Begun, Services

LASTOUT = [sys.executable, "-m", "lastout", "service"]


def test_a_trigger_returns_at_once_and_the_completion_follows(services, serve, work, wait_bound):
    serve()
    services.add("job", work.held(after="exit 3"), result=str(work.result))
    begun = services.start("job")
    pid = work.wait_up()
    assert (begun.joined, begun.state) == (False, "running")
    assert services.status("job").state == "running"
    assert not work.result.exists()
    work.let_go()
    done = services.wait("job", begun.activation, wait_bound)
    assert (done.code, done.failed, done.ended_by, done.reason) == (3, True, "itself", "completion")
    assert (done.tree_gone, done.remaining, done.run) == (True, 0, begun.run)
    assert done.root is not None
    assert done.root["pid"] == pid
    status = services.status("job")  # whatever of the copy was due is done now
    assert status.found is not None
    assert json.loads(work.result.read_text())["activation"] == begun.activation


def test_it_runs_in_nobodys_tree_with_its_own_environment(
    services, serve, work, monkeypatch, tmp_path, wait_bound
):
    monkeypatch.setenv("SECRET_OF_THE_SERVICE_PROCESS", "x")
    server = serve()
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setenv("SECRET_OF_THE_OWNER", "x")
    script = f"env >{tmp_path}/env; pwd >{tmp_path}/pwd; echo out; echo err >&2"
    services.add("job", ["sh", "-c", script], cwd=str(there), env={"MODE": "a b"})
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    _, done = services.run("job", timeout=wait_bound)
    told = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert (told["MODE"], told["LASTOUT_SERVICE"]) == ("a b", "job")
    assert told["LASTOUT_ACTIVATION"] == done.activation
    assert not any(name.startswith("SECRET") for name in told)
    assert (tmp_path / "pwd").read_text() == f"{there}\n"
    assert Path(services.output("job")).read_text() == "out\nerr\n"
    assert server.process.poll() is None


def test_two_starts_join_the_same_activation(services, serve, work, wait_bound):
    serve()
    services.add("job", work.held())
    begun: list[Begun] = []
    both = [
        threading.Thread(target=lambda: begun.append(Services(services.state).start("job")))
        for _ in range(2)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join(wait_bound)
    assert {one.activation for one in begun} == {begun[0].activation}
    assert sorted(one.joined for one in begun) == [False, True]
    work.wait_up()
    with pytest.raises(errors.AlreadyRunning) as refused:
        services.start("job", new=True)
    assert refused.value.activation == begun[0].activation
    work.let_go()
    services.wait("job", begun[0].activation, wait_bound)
    assert work.times == 1


def test_a_request_that_is_retried_starts_nothing_again(services, serve, work, wait_bound):
    serve()
    services.add("job", work.quick())
    first, done = services.run("job", request="r-1", timeout=wait_bound)
    again = services.start("job", request="r-1")
    assert (again.activation, again.joined) == (first.activation, True)
    other = services.start("job", request="r-2")
    assert other.activation != first.activation
    services.wait("job", other.activation, wait_bound)
    assert work.times == 2
    assert not done.failed


def test_without_a_service_process_nothing_is_written(services, work):
    services.add("job", work.quick())
    with pytest.raises(errors.NoRoute, match="lastout service serve"):
        services.start("job")
    assert ids(services.state, "job") == []


def test_an_unknown_name_is_refused(services, serve):
    serve()
    with pytest.raises(errors.NoSuchService, match="'other'"):
        services.start("other")
    connection = wire.connect(services.state)
    assert connection is not None
    with pytest.raises(errors.NoSuchService, match="'other'"):
        connection.ask("start", name="other")
    with pytest.raises(ValueError, match="name is"):
        connection.ask("start", name="../x")
    connection.close()


def test_a_trigger_carries_no_command(services, serve, work, wait_bound):
    serve()
    services.add("job", work.quick())
    connection = wire.connect(services.state)
    assert connection is not None
    told = connection.ask("start", name="job", argv=["touch", str(work.result)], cwd="/", env={})
    connection.close()
    services.wait("job", told["activation"], wait_bound)
    assert work.times == 1
    assert not work.result.exists()


def test_a_newer_versions_definition_is_left_alone(services, serve, work, wait_bound):
    services.add("new", work.quick())
    services.add("old", work.quick())
    path = Path(layout.service_directory(services.state, "new")) / "definition.json"
    told = json.loads(path.read_text()) | {"version": 99, "argv": {"later": "form"}}
    path.write_text(json.dumps(told))
    serve()
    for act in (services.start, services.status, services.stop, services.remove):
        with pytest.raises(errors.NewerDefinition, match="format 99"):
            act("new")
    assert json.loads(path.read_text()) == told
    assert not services.run("old", timeout=wait_bound)[1].failed
    kinds = [type(one).__name__ for one in services.statuses()]
    assert kinds == ["tuple", "Status"]


def test_what_can_be_known_to_fail_is_refused_at_once(services, tmp_path):
    cases = {
        "result": {"result": str(tmp_path / "no" / "result.json")},
        "directory": {"cwd": str(tmp_path / "no")},
        "deadline": {"timeout": 0},
        "user": {"user": "no-such-user-here"},
        "group": {"group": "no-such-group-here"},
        "preset": {"budget": "no-such-preset"},
    }
    for word, options in cases.items():
        with pytest.raises((errors.ServiceError, OSError, ValueError), match=word):
            services.add("job", ["true"], **options)
    with pytest.raises(errors.ServiceError, match="no-such-program"):
        services.add("job", ["no-such-program"])
    with pytest.raises(ValueError, match="name is"):
        services.add("a/b", ["true"])
    assert services.statuses() == []
    services.add("job", ["true"])
    with pytest.raises(errors.NameTaken):
        services.add("job", ["false"])


def test_files_and_socket_are_the_owners_alone(services, serve, work, wait_bound):
    services.add("job", work.quick(), env={"KEY": "secret"})
    serve()
    services.run("job", timeout=wait_bound)
    top = Path(layout.services_directory(services.state))
    for path in [top, *top.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode in (0o700, 0o600), f"{path}: {mode:o}"
    assert stat.S_ISSOCK((top / "socket").stat().st_mode)


@pytest.mark.root
def test_another_user_is_not_served(services, serve, work):
    """Whoever gets at the socket in spite of its mode is asked who he is by the kernel."""
    serve()
    services.add("job", work.quick())
    script = (
        "import os, socket, sys\n"
        "s = socket.socket(socket.AF_UNIX)\n"
        "fd = os.open(sys.argv[1], os.O_PATH)\n"
        "os.setresuid(65534, 65534, 65534)\n"
        "s.connect(f'/proc/self/fd/{fd}')\n"
        "s.settimeout(20)\n"
        "try:\n"
        '    s.sendall(b\'{"do": "start", "name": "job"}\\n\')\n'
        "    print(s.recv(100))\n"
        "except ConnectionError:\n"
        "    print(b'')\n"
    )
    socket = Path(layout.services_directory(services.state)) / "socket"
    socket.chmod(0o666)
    argv = [sys.executable, "-c", script, str(socket)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "b''", done.stderr
    assert ids(services.state, "job") == []


@pytest.mark.root
def test_work_runs_as_its_account_and_its_result_is_that_accounts(
    services, serve, tmp_path, wait_bound
):
    os.chmod(tmp_path, 0o755)
    for parent in list(tmp_path.parents)[:2]:
        os.chmod(parent, 0o755)
    place = tmp_path / "theirs"
    place.mkdir()
    os.chown(place, 65534, 65534)
    serve()
    services.add(
        "job", ["sh", "-c", "id -u; id -G"], user="nobody", cwd="/", result=str(place / "r.json")
    )
    _, done = services.run("job", timeout=wait_bound)
    assert not done.failed, done.why
    uid, groups = Path(services.output("job")).read_text().splitlines()
    assert uid == "65534"
    assert "0" not in groups.split()
    assert (place / "r.json").stat().st_uid == 65534


def test_the_command_line(state, serve, work):
    def lastout(*words: object) -> subprocess.CompletedProcess[str]:
        # As a tool of an agent has it: another session, and next to no environment.
        return subprocess.run(
            [*LASTOUT, *map(str, words), "--state", str(state)],
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
            env={"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "PATH": "/usr/bin:/bin"},
        )

    added = lastout("add", "job", "--manager", "lastout", "--json", *["--env", "A=1"])
    assert added.returncode == 2, "a command is needed"
    words = ["add", "job", "--manager", "lastout", "--json", "--state", str(state), "--"]
    done = subprocess.run(
        [*LASTOUT, *words, "sh", "-c", "echo said; exit 4"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(json.loads(done.stdout)["token"]) == 32
    assert lastout("start", "job").returncode == 1
    serve()
    waited = lastout("start", "job", "--wait", "--json")
    assert waited.returncode == 1
    assert json.loads(waited.stdout)["completion"]["code"] == 4
    assert lastout("log", "job").stdout == "said\n"
    told = json.loads(lastout("status", "job", "--json").stdout)
    assert (told["state"], told["completion"]["ended_by"]) == ("ended", "itself")
    assert "job" in lastout("list").stdout
    assert lastout("stop", "job").returncode == 1
    assert lastout("remove", "job").returncode == 0
    assert lastout("start", "job").returncode == 1


def test_json_names_what_was_begun_also_when_the_time_is_over(services, serve, work, wait_bound):
    serve()
    services.add("job", work.held())
    words = ["start", "job", "--wait", "--timeout", "0.1", "--json", "--state", services.state]
    done = subprocess.run([*LASTOUT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 124
    told = json.loads(done.stdout)
    assert (told["service"], told["completion"]) == ("job", None)
    work.wait_up()
    work.let_go()
    assert services.wait("job", told["activation"], wait_bound).activation == told["activation"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add", "x", "--timeout", "0", "--", "true"], "--timeout"),
        (["add", "x", "--keep", "0", "--", "true"], "--keep"),
        (["start", "x", "--wait", "--timeout", "-1"], "--timeout"),
        (["start", "x", "--timeout", "5"], "--timeout is for --wait"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(tmp_path, words, told):
    argv = [*LASTOUT, *words[:1], "--state", str(tmp_path), *words[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2, "a mistake of the call, found before anything else"
    assert told in done.stderr
    assert not list(tmp_path.iterdir())


def test_completions_are_kept_up_to_the_number(services, serve, work, wait_bound):
    serve()
    services.add("job", work.quick(), keep=2)
    known = [services.run("job", timeout=wait_bound)[1].activation for _ in range(4)]
    assert ids(services.state, "job") == known[1:]  # two, and the newest


def test_a_token_is_advised_only_where_it_helps(services, state):
    services.add("job", ["true"])

    def inside(*words: str) -> str:
        run = [*LASTOUT[:-1], "run", "--no-record", "--", *LASTOUT, *words, "--state", str(state)]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "ask from outside of it" in done.stderr
        return done.stderr

    assert "--token" not in inside("serve", "--detach")
    assert "--token" in inside("remove", "job")


def test_a_member_of_a_run_is_recognised(tmp_path):
    from lastout import supervisor

    script = "import sys; from lastout.above import run_above; print(run_above())"
    argv = supervisor.command([sys.executable, "-c", script], run="my-run", stdin_end="ignore")
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "my-run\n"
    assert above.run_above() is None
