"""Where an assessment's numbers come from."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping

from sordino.assessment.subject import Subject
from sordino.mechanisms.certificate import today, versions
from sordino.report.assessment import Provenance


def provenance(subject: Subject, seconds: Mapping[str, float]) -> Provenance:
    """Versions, fingerprint, trainings and times."""
    specs = {"SGD without added noise": subject.plain}
    if subject.network is not None:
        specs["the release"] = subject.network.spec
    elif subject.job is not None and subject.job.plan.spec is not None:
        specs["the release"] = subject.job.plan.spec
    return Provenance(
        date=today(),
        versions=versions(),
        fingerprint=subject.fingerprint,
        specs={name: json.dumps(spec.to_dict(), sort_keys=True) for name, spec in specs.items()},
        seconds=dict(seconds),
        machine=machine(),
    )


def machine() -> str:
    """Cores and system, in words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {platform.system()} on {platform.machine()}"
