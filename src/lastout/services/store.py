"""The services of a state directory: provision, trigger, watch, stop."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from lastout.above import run_above
from lastout.durable import now, replace
from lastout.here import working_directory
from lastout.identity import take
from lastout.services import activation as activations
from lastout.services import begin, layout, provision, sentences, steps, systemd, waiting, wire
from lastout.services.activation import Activation, Asker, StopAsked
from lastout.services.completion import Completion
from lastout.services.definition import VERSION, Definition, load
from lastout.services.errors import NoRoute, NotRunning, ServiceError, StillWaiting
from lastout.services.provision import owner_asks
from lastout.services.steps import RETRY, Found, State
from lastout.services.wire import Connection
from lastout.state import locate
from lastout.supervisor import plain_argv

__all__ = ["Begun", "Services", "Status", "open_services"]

NOT_NOW: Final = 75
"""The exit status of a unit's first step that could not be taken (EX_TEMPFAIL of sysexits.h)."""

REASONS: Final = ("abort", "shutdown", "completion")


@dataclass(frozen=True, slots=True)
class Begun:
    """What a trigger came to. `joined`: the activation was there before."""

    service: str
    activation: str
    joined: bool
    state: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """A service and one activation of it, as they can be seen now."""

    definition: Definition
    found: Found | None
    note: str | None = None

    @property
    def state(self) -> str:
        """`idle` without any activation, else where the activation is."""
        return self.found.state.value if self.found else "idle"


def open_services(state: str | os.PathLike[str] | None = None) -> Services:
    """The services of a state directory. Raises OSError where it cannot be used."""
    return Services(locate(state))


class Services:
    """Stateless: any number of them, in as many processes and threads as like."""

    def __init__(self, state: str) -> None:
        self.state = state

    # --- the owner's ----------------------------------------------------------------------------

    def add(
        self,
        name: str,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        group: str | None = None,
        timeout: float | None = None,
        result: str | None = None,
        budget: str = "default",
        contain: str = "subreaper",
        manager: str = "auto",
        keep: int = 20,
        replace: bool = False,
        token: str | None = None,
    ) -> str:
        """Provision a service; returns the owner's token, which is kept nowhere else.

        `timeout` is its deadline in seconds, `result` where each completion record is copied to.
        Of this process only the umask, PATH, LANG, LC_ALL and TZ are taken, below `env`. Raises
        NameTaken, NotItsOwner, NoRoute, ServiceError for an account that cannot be, ValueError,
        OSError; then nothing was written.
        """
        wanted = Definition(
            version=VERSION,
            name=layout.check_name(name),
            argv=tuple(plain_argv(argv)),
            cwd=os.path.abspath(cwd or working_directory()),
            env=provision.environment(env or {}),
            manager=systemd.choose() if manager == "auto" else manager,
            user=user,
            group=group,
            timeout_s=timeout,
            result=os.path.abspath(result) if result else None,
            budget=budget,
            contain=contain,
            umask=provision.umask(),
            keep=keep,
            added_at=now(),
        )
        return provision.add(self.state, wanted, replacing=replace, token=token)

    def stop(
        self,
        name: str,
        *,
        reason: str = "abort",
        by: str | None = None,
        token: str | None = None,
        now_: bool = False,
    ) -> Completion:
        """End the activation that is under way, and wait for its completion.

        `now_`: without the graces. Raises NotRunning, NotItsOwner, StillWaiting when its end cannot
        be proven, OSError.
        """
        if reason not in REASONS:
            raise ValueError(f"the reason is one of {', '.join(REASONS)}, not {reason!r}")
        definition = load(self.state, name)
        owner_asks("stopping a service", definition, token)
        with layout.alone(self.state, name):
            found = provision.live(self.state, name)
            if found is None:
                raise NotRunning(sentences.not_running(name))
            one = found.activation
            said = StopAsked(
                version=VERSION, reason=reason, by=by or provision.user_name(), at=now()
            )
            directory = layout.activation_directory(self.state, name, one.id)
            replace(os.path.join(directory, "stop.json"), msgspec.json.encode(said) + b"\n")
            found = steps.settle(self.state, one, fence=True)
            if found.state is State.ACCEPTED:
                found = steps.give_up(self.state, one, sentences.STOPPED_BEFORE)
        if found.completion is None:
            steps.force_stop(self.state, one, now=now_)
        return waiting.wait(self.state, name, one.id, 0.0)

    def remove(self, name: str, *, token: str | None = None) -> None:
        """Forget a service, its activations and their output; the runs' records stay.

        Raises AlreadyRunning while one is under way, NotItsOwner, NoSuchService, OSError.
        """
        provision.remove(self.state, name, token)

    # --- anybody's ------------------------------------------------------------------------------

    def start(self, name: str, *, new: bool = False, request: str | None = None) -> Begun:
        """Trigger a service by name and return at once; one that is under way is joined.

        `new`: raise AlreadyRunning instead of joining. `request` names this request: asking again
        with it is the same activation. Raises NoRoute (then nothing was written), NoSuchService,
        NewerDefinition, Busy, OSError.
        """
        begun, connection = self._begin(name, new, request)
        if connection is not None:
            connection.close()
        return begun

    def run(
        self,
        name: str,
        *,
        new: bool = False,
        request: str | None = None,
        timeout: float | None = None,
    ) -> tuple[Begun, Completion]:
        """Trigger it and wait for its completion. Raises as `start` and `wait` do."""
        begun, connection = self._begin(name, new, request)
        try:
            return begun, waiting.wait(self.state, name, begun.activation, timeout, connection)
        except StillWaiting as error:
            error.begun = begun
            raise
        finally:
            if connection is not None:
                connection.close()

    def wait(
        self, name: str, activation: str | None = None, timeout: float | None = None
    ) -> Completion:
        """Wait for a completion, of the newest activation where none is named. Raises NotRunning,
        NoSuchService, StillWaiting."""
        one = activation or self._newest(name).id
        connection = wire.connect(self.state)
        try:
            return waiting.wait(self.state, name, one, timeout, connection)
        finally:
            if connection is not None:
                connection.close()

    def status(self, name: str, activation: str | None = None) -> Status:
        """How a service is, by its newest activation or the one that is named; what is over is
        published on the way. Raises NoSuchService, NewerDefinition, Busy."""
        definition = load(self.state, name)
        if activation is None:
            known = activations.ids(self.state, name)
            if not known:
                return Status(definition, None)
            activation = known[-1]
        try:
            found = waiting.look(self.state, name, activation)
        except OSError as error:
            one = activations.load(self.state, name, activation)
            return Status(definition, Found(State.STARTING, one), sentences.not_settled(error))
        note = found.undelivered
        if found.state is State.ACCEPTED and definition.manager == "lastout" and not self.serving():
            note = sentences.STARTS_LATER
        return Status(definition, found, note)

    def statuses(self) -> list[Status | tuple[str, str]]:
        """Every service; as name and reason where one cannot be read."""
        found: list[Status | tuple[str, str]] = []
        for name in layout.names(self.state):
            try:
                found.append(self.status(name))
            except ServiceError as error:
                found.append((name, str(error)))
        return found

    def output(self, name: str, activation: str | None = None) -> str:
        """The path of an activation's output. Raises NotRunning where there was none."""
        one = activations.load(self.state, name, activation) if activation else self._newest(name)
        return activations.output_path(self.state, one)

    def serving(self) -> dict[str, int] | None:
        """The identity of the service process; None where none answers."""
        connection = wire.connect(self.state)
        if connection is None:
            return None
        try:
            process: dict[str, int] = connection.ask("ping")["process"]
            return process
        except NoRoute:
            return None
        finally:
            connection.close()

    def quit(self) -> dict[str, int] | None:
        """Ask the service process to end; what it started goes on. None where there is none."""
        connection = wire.connect(self.state)
        if connection is None:
            return None
        try:
            process: dict[str, int] = connection.ask("quit")["process"]
            return process
        finally:
            connection.close()

    # --- below ----------------------------------------------------------------------------------

    def _begin(self, name: str, new: bool, request: str | None) -> tuple[Begun, Connection | None]:
        definition = load(self.state, name)
        if definition.manager != "lastout":
            return self._by_systemd(definition, new, request), None
        connection = wire.connect(self.state)
        if connection is None:
            raise NoRoute(sentences.NO_SERVICE_PROCESS)
        try:
            told = connection.ask("start", name=name, new=new, request=request)
        except BaseException:
            connection.close()
            raise
        begun = Begun(name, told["activation"], told["joined"], told["state"], told.get("run"))
        return begun, connection

    def _by_systemd(self, definition: Definition, new: bool, request: str | None) -> Begun:
        if not systemd.available(definition.manager):
            raise NoRoute(sentences.no_manager(definition.manager))
        name = definition.name
        me = take(os.getpid())
        by = Asker(pid=me.pid, start=me.start, uid=os.getuid(), run=run_above())
        with layout.alone(self.state, name):
            accepted = begin.accept(self.state, definition, by, new=new, request=request)
        if accepted.found.state in (State.ACCEPTED, State.STARTING):
            systemd.start(self.state, definition)
        return Begun(name, accepted.activation.id, accepted.joined, accepted.found.state.value)

    def unit_ended(self, name: str) -> None:
        """What a unit's last step does: publish, and start what was accepted meanwhile.

        Its manager took a start for done while the unit had not quite ended. Where the unit's first
        step could not be taken (a full disk), the next one is not tried at once.
        """
        status = self.status(name)
        # What seems to be starting is not: the process that would have is the one that has ended.
        if status.found is not None and status.found.state in (State.ACCEPTED, State.STARTING):
            if os.environ.get("EXIT_STATUS") == str(NOT_NOW):
                time.sleep(RETRY)
            systemd.start(self.state, status.definition)

    def _newest(self, name: str) -> Activation:
        load(self.state, name)
        one = activations.newest(self.state, name)
        if one is None:
            raise NotRunning(sentences.never_started(name))
        return one
