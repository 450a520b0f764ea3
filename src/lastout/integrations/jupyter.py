"""Jupyter kernels under the supervisor: the provisioner `lastout-provisioner`."""

from __future__ import annotations

import os
import pathlib
from subprocess import DEVNULL
from typing import Any

from jupyter_client.provisioning import LocalProvisioner
from traitlets import Unicode

from lastout.graces import MARGIN, resolve
from lastout.popen import Popen

__all__ = ["Provisioner"]


class Provisioner(LocalProvisioner):
    """A local kernel as `lastout.Popen`: interrupts reach it, and killing it leaves nobody.

    Its place in a kernel's `kernel.json` is `metadata.kernel_provisioner`: the `provisioner_name`,
    and below `config` what differs from the defaults here.
    """

    graces = Unicode("jupyter", help="The name of a preset.").tag(config=True)
    state = Unicode("", help="The state directory; empty: the user's.").tag(config=True)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Start the kernel. Raises ValueError for `independent=True`: such a kernel is to outlive
        its owner, which is what the supervisor prevents."""
        options = self._scrub_kwargs(kwargs)
        if options.pop("independent", False):
            raise ValueError("an independent kernel outlives its owner: use `local-provisioner`")
        env = dict(options.pop("env", None) or os.environ)
        env["JPY_PARENT_PID"] = str(os.getpid())
        stdin = options.pop("stdin", None)
        options["start_new_session"] = True
        self.process = Popen(
            [os.path.expanduser(word) for word in cmd],  # noqa: ASYNC240 - as the local one does
            stdin=DEVNULL if stdin is None else stdin,
            env=env,
            graces=self.graces,
            state=self.state or None,
            **options,
        )
        self.pid = self.process.pid
        # Without a group of its own every signal goes through Popen, which knows whom it is for.
        self.pgid = None
        self.cwd = kwargs.get("cwd", pathlib.Path.cwd())
        return self.connection_info

    def get_shutdown_wait_time(self, recommended: float = 5.0) -> float:
        """The kernel manager gives each of its two steps half of this: the ladder must fit in."""
        return max(recommended, 2 * (resolve(self.graces).max_stop + MARGIN))
