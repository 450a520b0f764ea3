"""A job that is submitted from inside of a run has its runner started by the service process."""

from __future__ import annotations

import signal
import subprocess
import sys

from lastout import identity, jobs
from lastout.services import request_runner, runner_route

SUBMIT = """
import sys
from lastout import jobs
job = jobs.open_jobs(sys.argv[1]).submit(jobs.Command(["sh", "-c", sys.argv[2]], cwd="/"))
print(job.id)
"""


def submit(services, script: str) -> subprocess.CompletedProcess[str]:
    inside = [sys.executable, "-c", SUBMIT, services.state, script]
    argv = [sys.executable, "-m", "lastout", "run", "--no-record", "--", *inside]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_the_service_process_starts_the_runner(services, serve, work, wait_bound):
    assert not runner_route(services.state)
    assert not request_runner(services.state)
    refused = submit(services, "exit 0")
    assert refused.returncode != 0
    assert "lastout service serve" in refused.stderr
    server = serve()
    assert runner_route(services.state)
    done = submit(services, work.held()[2])
    assert done.returncode == 0, done.stderr
    # The run that it was submitted from is over, with everything in it; the job lives.
    pid = identity.take(work.wait_up())
    assert identity.still_alive(pid) is identity.Alive.YES
    job = jobs.open_jobs(services.state).get(done.stdout.strip())
    runner = job.status().runner
    assert runner is not None
    server.kill()
    work.let_go()
    assert job.wait(wait_bound).failed is False
    identity.signal(runner.identity, signal.SIGTERM)  # it would wait a while for the next job
    assert identity.wait_dead(runner.identity, wait_bound) is identity.Alive.NO
