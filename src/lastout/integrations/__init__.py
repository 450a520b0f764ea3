"""Hosts that start agents, each with the few lines that put the supervisor in front.

One module a host; the host's own package is imported there and nowhere else.
"""
