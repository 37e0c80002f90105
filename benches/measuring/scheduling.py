"""Whose turn it is on a machine with other work to do."""
import os
from collections.abc import Iterator
from contextlib import contextmanager

# Above the servers', so that an answer is taken when it is there.
PRIORITY = 11


@contextmanager
def first_in_line(real_time: bool) -> Iterator[None]:
    """This process runs whenever it wants to, if that is asked for; otherwise nothing changes."""
    if not real_time:
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)
