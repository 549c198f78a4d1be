"""The most memory that steps take, in a process of its own.

    python -m network_study.peak MODEL STEP ROWS THREADS

Prints bytes: the highest resident size during three steps less that before. What is made once in
every process (code of kernels, threads, modules imported) is made before, by the same step of a
small network and a plain one of this. What the step's owner keeps for the network counts, but not
what its set-up needed for a while.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

STEPS = 3
HERE = Path(__file__).parents[1]
# Blocks of 64 KiB and more come from the system and go back when they are freed, so that the
# resident size is what is in use; glibc would keep them otherwise, some more and some less.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}


def resident(field: str) -> int:
    """VmRSS (now) or VmHWM (the highest since it was last forgotten), in bytes."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    assert found is not None
    return 1024 * int(found[1])


def peak(name: str, step_name: str, rows: int, threads: int) -> int:
    """Bytes above what was there before, in this very process."""
    import torch
    from network_study import steps
    from network_study.models import MODELS
    from torch import nn

    torch.set_num_threads(threads)
    make = steps.all_of_them()[step_name]
    model = MODELS[name]
    batch = model.batch(rows)
    warm = make(nn.Linear(4, 2), (torch.randn(8, 4), torch.zeros(8, dtype=torch.int64)))
    plain = steps.plain(model.module(), batch)
    for _ in range(2):
        warm()
        plain()
    del warm, plain
    module = model.module()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest resident size
    before = resident("VmRSS")
    step = make(module, batch)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # what the set-up needed for a while is no step's
    for _ in range(STEPS):
        step()
    return resident("VmHWM") - before


def measured(name: str, step_name: str, rows: int, threads: int, repeats: int) -> float:
    """Median of as many fresh processes.

    Raises
    ------
    RuntimeError
        If one of them fails.
    """
    command = [sys.executable, "-m", "network_study.peak", name, step_name, str(rows), str(threads)]
    found = []
    for _ in range(repeats):
        done = subprocess.run(
            command, cwd=HERE, env=os.environ | ENVIRONMENT, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
        found.append(int(done.stdout))
    return statistics.median(found)


if __name__ == "__main__":
    print(peak(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
