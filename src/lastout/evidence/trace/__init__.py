"""Who sent the signal: what the kernel tells a privileged onlooker, joined to runs by identity.

`tracefs` (root) names senders, the kernel, and OOM victims; the process connector (root, and users
since Linux 6.6) tells how every process ended, but no sender. Both work in the initial pid
namespace only. Nothing is traced unless it is asked for: `lastout run --trace`, or the service
`lastout trace`.
"""

from __future__ import annotations

__all__ = ["TracingUnavailable"]


class TracingUnavailable(Exception):
    """The kernel, or our privileges, do not allow it; the text says what is missing."""
