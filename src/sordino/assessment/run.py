"""`assess`: the main job, stage by stage.

    read     records, plan, the crafted pair               nothing is written before this is done
    prove    what every theorem says of the release
    measure  SGD's own noise, and the release's             estimates
    attack   the release, and SGD without added noise       observations
    release  train once, add noise, write the bundle        accuracy before and after
    report   assessment.json and report.html

The release comes last, so that whatever else can fail has failed before, and nothing is spent. A
stage that is finished is never done again unless it is asked to look harder, so a study goes on
where it stopped; above all it releases once.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sordino import checks
from sordino.assessment.directory import ASSESSMENT, MODEL, PAGE, STUDY, AssessmentDirectory
from sordino.assessment.request import Request
from sordino.report.assessment import STAGES, Assessment, Provenance
from sordino.types import Progress

if TYPE_CHECKING:
    from sordino.sgd.spec import TrainSpec

_Found = TypeVar("_Found")


class Watch(Protocol):
    """Whoever is told how far an assessment has come."""

    def begin(self, stage: str, words: str) -> Progress:
        """A stage begins; call what is returned with (done, total)."""

    def end(self, stage: str, seconds: float, *, resumed: bool) -> None:
        """It is over; `resumed` if it had been done before."""


class Silent:
    """Nobody is told."""

    def begin(self, stage: str, words: str) -> Progress:
        """Nothing."""
        return lambda done, total: None

    def end(self, stage: str, seconds: float, *, resumed: bool) -> None:
        """Nothing."""


class Stages:
    """Does stages, or takes what they found before."""

    def __init__(self, directory: AssessmentDirectory, watch: Watch) -> None:
        self.directory, self.watch = directory, watch
        self.seconds: dict[str, float] = {}

    def do(
        self,
        stage: str,
        kind: type[_Found],
        work: Callable[[Path, Progress], _Found],
        *,
        again: bool = False,
    ) -> _Found:
        """What a stage found, now or before; `again` does it in any case."""
        from sordino.report import document

        tell = self.watch.begin(stage, STAGES[stage])
        known = None if again else self.directory.finished(stage, kind)
        if known is not None:
            self.seconds[stage], found = known
            self.watch.end(stage, self.seconds[stage], resumed=True)
            return found
        began = time.perf_counter()
        plain = document.to_plain(work(self.directory.work(stage), tell))
        seconds = self.seconds[stage] = time.perf_counter() - began
        self.directory.finish(stage, seconds, plain)
        self.watch.end(stage, seconds, resumed=False)
        return document.from_plain(kind, plain)  # as a study that goes on reads it

    @contextmanager
    def always(self, stage: str) -> Iterator[None]:
        """A stage that is done every time."""
        self.watch.begin(stage, STAGES[stage])
        began = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - began
        self.watch.end(stage, self.seconds[stage], resumed=False)


def assess(
    request: Request | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
    mechanism: Any = None,
    pair: tuple[Any, Any] | None = None,
    **settings: Any,
) -> Assessment:
    """How private is the model I am about to release? Prove, measure, attack, release.

    Parameters
    ----------
    request
        What is asked, such as `Request.from_file("study.toml")`; or pass its settings by name:
        data="patients.csv", target="ill", epsilon=1.0, effort="quick", ...
    out
        Directory of the study, INTERNAL: made, or gone on with. It holds the released model
        (`model/`), the page and everything behind it. None keeps nothing, not even the model.
    watch
        Told how far it is.
    mechanism, pair
        A function (data, generator) -> numbers, or an estimator, attacked and nothing else: on
        `pair`, two datasets that differ in one record, or on a crafted pair made from `data`. Or
        "gallery:NAME", one of the audit's broken mechanisms.

    Returns
    -------
    Assessment
        With `proved`, `estimated` and `observed`: a `Guarantee`, an `Estimate` and an
        `Observation` of the same release. A notebook shows it as a small page.

    Raises
    ------
    InvalidArgument, DataError, NotApplicable
        In one sentence, before anything is released.
    AssessmentError
        If `out` holds another release.
    """
    asked = (request or Request()).with_options(**settings)
    if isinstance(mechanism, str):
        asked, mechanism = asked.with_options(mechanism=mechanism), None
    elif mechanism is not None and asked.mechanism is None:
        asked = asked.with_options(mechanism=_name(mechanism))
    gallery = (asked.mechanism or "").startswith("gallery:")
    if pair is not None and (asked.mechanism is None or gallery):
        hint = "Two datasets of your own go with a mechanism of your own."
        checks.fail("pair", "[given]", "to be left out without a mechanism", hint)
    if pair is None and asked.pair is None and not gallery:
        asked.source()  # a wrong target is said before a directory of another study is
    if out is None:
        _check_no_ledger(asked)
        with tempfile.TemporaryDirectory(prefix="sordino-") as scratch:
            place = AssessmentDirectory.checked(Path(scratch) / "study", asked)
            found = _assess(asked, place, watch or Silent(), mechanism, pair)
        return _without_directory(found)
    place = AssessmentDirectory.checked(out, asked)
    # What was released is charged for: to go on needs no ledger.
    with (None if place.released else asked.book()) or nullcontext():
        return _assess(asked, place, watch or Silent(), mechanism, pair)


def _assess(
    request: Request, directory: AssessmentDirectory, watch: Watch, mechanism: Any, pair: Any
) -> Assessment:
    from sordino.assessment import foreign

    stages = Stages(directory, watch)
    if request.mechanism is not None:
        with stages.always("read"):
            game = foreign.game(request, mechanism, pair)
            game.check(request)
        with directory.opened(request, game.identity or ""):
            return _reported(stages, foreign.attacked(request, game, stages))
    return _released(request, stages)


def _released(request: Request, stages: Stages) -> Assessment:
    """Every stage of a release."""
    from sordino.assessment import history
    from sordino.assessment.caveats import caveats
    from sordino.assessment.pages import verified
    from sordino.assessment.plan import AssessmentPlan
    from sordino.assessment.stages import attack, measure, prove, release
    from sordino.report.stages import Attack, Estimated, OwnNoise, Proved, Release

    directory = stages.directory
    with stages.always("read"):
        subject = AssessmentPlan.of(request)
        measure.check(subject)
        attack.check(subject)
        if not directory.released and directory.paid() is None:
            subject.ask_ledger()
            history.warn(request.source())

    def do(stage: str, kind: type[_Found], work: Callable[..., _Found]) -> _Found:
        return stages.do(stage, kind, lambda place, tell: work(subject, place, tell))

    with directory.opened(request, subject.fingerprint):
        # Cheap, and files may have been changed: proved anew every time.
        proved = stages.do("prove", Proved, lambda work, tell: prove.prove(subject), again=True)
        own = do("own_noise", OwnNoise, measure.own_noise)
        estimated = do("release_estimate", Estimated, measure.release_estimate)
        attacks = (
            do("attack_release", Attack, attack.attack_release),
            do("attack_plain", Attack, attack.attack_plain),
        )

        def found(released: Release) -> Assessment:
            return Assessment(
                question=subject.question(rerun(request, directory.root)),
                records=subject.records,
                proved_parts=proved,
                release=released,
                release_estimated=estimated,
                own_noise=own,
                attacks=attacks,
                caveats=caveats(subject, proved, released, attacks),
                provenance=provenance(subject.fingerprint, stages, subject.specs),
            )

        def rehearse(planned: Release) -> object:
            return _shown(found(planned))

        make = partial(release.release, bundle=directory.root / MODEL, rehearse=rehearse)
        released = do("release", Release, make)
        # A study that goes on repeats what it said; what it says of a model must still be so.
        verified(directory.root, released, proved.guarantee)
        return _reported(stages, found(released))


def _shown(found: Assessment) -> tuple[str, str, Assessment]:
    """Everything as data, the page, and what was found as `sordino report` reads it."""
    from sordino.report import document, page

    text = document.dumps(found)
    found = document.loads(text)
    return text, page.page(found), found


def _reported(stages: Stages, found: Assessment) -> Assessment:
    """Write the page, and everything as data."""
    with stages.always("report"):
        text, shown, found = _shown(found)
        stages.directory.write(ASSESSMENT, text)
        stages.directory.write(PAGE, shown)
    return found


def provenance(
    fingerprint: str, stages: Stages, specs: Mapping[str, TrainSpec] | None = None
) -> Provenance:
    """Where an assessment's numbers come from: versions, fingerprint, trainings and times."""
    from sordino.release.certificate import today, versions
    from sordino.sgd.planning import default_threads

    return Provenance(
        date=today(),
        versions=versions(),
        fingerprint=fingerprint,
        specs={
            name: json.dumps(spec.to_dict(), sort_keys=True) for name, spec in (specs or {}).items()
        },
        seconds=dict(stages.seconds),
        machine=f"{default_threads()} cores, {platform.system()} on {platform.machine()}",
    )


def rerun(request: Request, directory: Path) -> str:
    """The command that asks the same again, in a directory of its own."""
    study, again = directory / STUDY, directory.with_name(f"{directory.name}-again")
    trusted = " --run-code" if request.runs_code else ""
    return f"sordino assess {shlex.quote(str(study))} --out {shlex.quote(str(again))}{trusted}"


def _check_no_ledger(request: Request) -> None:
    """A model that nobody keeps is not worth a budget."""
    from sordino.release.ledger_open import is_open

    if is_open() or request.ledger is not None:
        hint = "Pass the directory that keeps the model, or close the ledger first."
        checks.fail("out", None, "to be given while a ledger is open", hint)


def _name(mechanism: Any) -> str:
    """Of a function or an estimator, as one would import it."""
    named = mechanism if hasattr(mechanism, "__qualname__") else type(mechanism)
    return f"{named.__module__}:{named.__qualname__}"


def _without_directory(found: Assessment) -> Assessment:
    """The same, where nothing was kept."""
    question = replace(found.question, rerun="sordino.assess(..., out=DIRECTORY) keeps a study")
    if found.release is None or not found.release.directory:
        return replace(found, question=question)
    why_not = "no directory was named, so nothing was kept: pass out="
    released = replace(found.release, directory="", why_not=why_not)
    return replace(found, question=question, release=released)
