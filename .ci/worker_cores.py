"""Worker threads that have cores of their own, which the programs that they start inherit."""

import itertools
import os
from concurrent.futures import ThreadPoolExecutor


def workers(jobs):
    """A pool of `jobs` threads that divide the cores, so that each program runs as on a small machine that is idle."""
    cores, numbers = sorted(os.sched_getaffinity(0)), itertools.count()
    share = len(cores) // jobs

    def take_cores():
        number = next(numbers)
        if share > 0:
            os.sched_setaffinity(0, cores[number * share : (number + 1) * share])

    return ThreadPoolExecutor(jobs, initializer=take_cores)
