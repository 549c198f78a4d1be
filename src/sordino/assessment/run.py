"""`assess`: the main job, stage by stage.

    read     records, plan, the crafted pair               nothing is written before this is done
    prove    what every theorem says of the release
    measure  SGD's own noise, and the release's             estimates
    attack   the release, and SGD without added noise       observations
    release  train once, add noise, write the bundle        accuracy before and after
    report   assessment.json and report.html

The release comes last, so that whatever else can fail has failed before, and nothing is spent. A
finished stage is never done again unless it is to be examined more thoroughly, so an assessment is
resumed where it stopped; above all it releases once.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sordino import checks
from sordino.assessment.directory import ASSESSMENT, MODEL, PAGE, STUDY, AssessmentDirectory
from sordino.assessment.request import GALLERY, Request
from sordino.data.source import IN_MEMORY
from sordino.privacy import Relation
from sordino.report.result import STAGES, Assessment, Provenance, Question
from sordino.types import Progress

if TYPE_CHECKING:
    from sordino.assessment.plan import AssessmentPlan
    from sordino.audit.pairs import Claim
    from sordino.data.given import Given
    from sordino.report.result import Attack, Proved, Release

_Result = TypeVar("_Result")


class Watch(Protocol):
    """Whoever is told how far an assessment has come."""

    def begin(self, stage: str, words: str) -> Progress:
        """A stage begins; call what is returned with (done, total)."""
        return lambda done, total: None

    def end(self, stage: str, seconds: float, *, resumed: bool) -> None:
        """It is over; `resumed` if it had been done before."""
        return


class Silent(Watch):
    """Nobody is told."""


class _Stages:
    """Does stages, or takes their results of before; remembers how long each took."""

    def __init__(self, directory: AssessmentDirectory, watch: Watch) -> None:
        self.directory, self.watch = directory, watch
        self.seconds: dict[str, float] = {}

    def do(
        self,
        stage: str,
        kind: type[_Result],
        work: Callable[[Path, Progress], _Result],
        *,
        again: bool = False,
    ) -> _Result:
        """The result of a stage, of now or before; `again` does it in any case."""
        tell = self.watch.begin(stage, STAGES[stage])
        known = None if again else self.directory.load_stage(stage, kind)
        if known is not None:
            self.seconds[stage], result = known
        else:
            began = time.perf_counter()
            result = work(self.directory.work(stage), tell)
            self.seconds[stage] = time.perf_counter() - began
            self.directory.save_stage(stage, self.seconds[stage], result)
        self.watch.end(stage, self.seconds[stage], resumed=known is not None)
        return result

    @contextmanager
    def always(self, stage: str) -> Iterator[None]:
        """A stage that is done every time."""
        self.watch.begin(stage, STAGES[stage])
        began = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - began
        self.watch.end(stage, self.seconds[stage], resumed=False)

    def provenance(self, fingerprint: str, plan: AssessmentPlan | None = None) -> Provenance:
        """Where the numbers come from: versions, fingerprint, trainings and times."""
        from sordino.release.certificate import today, versions
        from sordino.tasks import available_cores

        specs = {}
        if plan is not None:
            specs = {"SGD without added noise": plan.plain, "the release": plan.release_spec}
        return Provenance(
            date=today(),
            versions=versions(),
            fingerprint=fingerprint,
            specs={
                name: json.dumps(spec.to_dict(), sort_keys=True)
                for name, spec in specs.items()
                if spec is not None
            },
            seconds=dict(self.seconds),
            machine=f"{available_cores()} cores, {platform.system()} on {platform.machine()}",
        )

    def question(
        self,
        request: Request,
        title: str,
        epsilon: float,
        delta: float,
        reason: str,
        claim: Claim | None = None,
    ) -> Question:
        """What was asked: of a release, or what a mechanism claims."""
        root = self.directory.root
        study, again = (shlex.quote(str(path)) for path in (root / STUDY, f"{root}-again"))
        return Question(
            title=title,
            data="" if request.pair else request.data,
            target=request.target,
            model="" if claim else request.model,
            method="" if claim else request.method,
            epsilon=epsilon,
            delta=delta,
            delta_reason=reason,
            relation=claim.relation if claim else Relation.REPLACE_ONE,
            rows_per_person=request.max_rows_per_person,
            effort=request.effort,
            mechanism=(request.mechanism or "") if claim else "",
            settings=request.settings(),
            asked="" if request.risk is None else request.risk.words,
            rerun=f"sordino assess {study} --out {again}{' --run-code' * request.runs_code}"
            if request.data != IN_MEMORY
            else "sordino.assess with the same records and another out=",
        )

    def report(self, assessment: Assessment) -> Assessment:
        """Write the page, and everything as data."""
        with self.always("report"):
            text, shown = _render(assessment)
            self.directory.write(ASSESSMENT, text)
            self.directory.write(PAGE, shown)
        return assessment


def _render(assessment: Assessment) -> tuple[str, str]:
    """Everything as data, and the page of that, as `sordino report` makes it again."""
    from sordino.report import page, result, sections

    text = result.dumps(assessment)
    return text, page.html(sections.page(result.loads(text)))


def assess(
    request: Any = None,
    X: Any = None,
    y: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
    mechanism: Any = None,
    pair: tuple[Any, Any] | None = None,
    client: Any = None,
    **settings: Any,
) -> Assessment:
    """How private is the model I am about to release? Prove, measure, attack, release.

    Parameters
    ----------
    request
        What is asked, such as `Request.from_file("study.toml")`; or pass its settings by name:
        data="patients.csv", target="ill", epsilon=1.0, effort="quick", ... Or an estimator that
        is not fitted: its parameters become settings, and one that the assessment has no setting
        for is refused. Or the records themselves, in the place of X and y.
    X, y
        Records in memory instead of `data`: rows of numbers and labels, or a table of pandas or
        polars with `target=` and, as for a file, `columns=` (a file, tables or a `Columns`). The
        study holds nothing of them but what that of a file does: to go on with it, pass the same
        records again.
    out
        Directory of the assessment, INTERNAL: made, or resumed. It holds the released model
        (`model/`), the page and everything behind it. None keeps nothing, not even the model.
    watch
        Told how far it is.
    mechanism, pair
        A function (data, generator) -> numbers, or an estimator, attacked and nothing else: on
        `pair`, two datasets that differ in one record, or on a crafted pair made from `data`. Or
        "gallery:NAME", one of the audit's broken mechanisms.
    client
        A Dask `Client` whose workers train and attack.

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

    Examples
    --------
    >>> found = assess(mechanism="gallery:fixed-seed", effort="quick", audit_runs=200)
    >>> found.broken
    True

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sordino import PrivateLogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PrivateLogisticRegression(epsilon=2, method="noisy-gd", classes=[0, 1])
    >>> found = assess(model, X / 1000, y, effort="quick", seeds=20, neighbours=2, audit_runs=64)
    >>> found.proved.epsilon <= 2
    True
    """
    asked, records = _asked(request, X, y, settings)
    if records is not None and (mechanism is not None or asked.mechanism is not None):
        checks.fail("data", "[in memory]", "to be left out with a mechanism", "Pass pair=.")
    if isinstance(mechanism, str):
        asked, mechanism = asked.with_options(mechanism=mechanism), None
    elif mechanism is not None and asked.mechanism is None:
        named = mechanism if hasattr(mechanism, "__qualname__") else type(mechanism)
        asked = asked.with_options(mechanism=f"{named.__module__}:{named.__qualname__}")
    gallery = (asked.mechanism or "").startswith(GALLERY)
    if pair is not None and (asked.mechanism is None or gallery):
        checks.fail("pair", "[given]", "to be left out without a mechanism of your own")
    if pair is None and asked.pair is None and not gallery:
        asked.source(records)  # a wrong target is said before a directory of another study is
    if out is None:
        return _assess_unkept(asked, watch or Silent(), mechanism, pair, client, records)
    place = AssessmentDirectory.checked(out, asked)
    # What was released is charged for: to resume needs no ledger.
    with (None if place.released else asked.budget()) or nullcontext():
        stages = _Stages(place, watch or Silent())
        return _assess(asked, stages, mechanism, pair, client, records)


def _asked(first: Any, X: Any, y: Any, settings: dict[str, Any]) -> tuple[Request, Given | None]:
    """What is asked; the rooms that know estimators and tables only if some are passed."""
    named = (settings.get(name) for name in ("data", "columns"))
    plain = all(each is None or isinstance(each, str | os.PathLike) for each in named)
    if plain and X is None and y is None and isinstance(first, Request | None):
        return (first or Request()).with_options(**settings), None
    from sordino.assessment import asked

    return asked.asked(first, X, y, settings)


def _assess_unkept(
    request: Request,
    watch: Watch,
    mechanism: Any,
    pair: Any,
    client: Any,
    records: Given | None = None,
) -> Assessment:
    """Without a directory nothing is kept, and a model that nobody keeps is not worth a budget."""
    from sordino.release.ledger import is_open

    if is_open() or request.ledger is not None:
        checks.fail("out", None, "to be given while a ledger is open")
    with tempfile.TemporaryDirectory(prefix="sordino-") as scratch:
        place = AssessmentDirectory.checked(Path(scratch) / "study", request)
        found = _assess(request, _Stages(place, watch), mechanism, pair, client, records)
    question = replace(found.question, rerun="sordino.assess(..., out=DIRECTORY) keeps a study")
    release = found.release
    if release is not None and release.directory:
        release = replace(release, directory="", why_not="nothing was kept: pass out=")
    return replace(found, question=question, release=release)


def _assess(
    request: Request,
    stages: _Stages,
    mechanism: Any,
    pair: Any,
    client: Any,
    records: Given | None = None,
) -> Assessment:
    if request.mechanism is None:
        return _assess_release(request, stages, client, records)
    from sordino.assessment.stages.attack import attack_mechanism, mechanism_target
    from sordino.report.result import Attack

    # Audit alone: nothing can be proved of code that is only run.
    with stages.always("read"):
        target = mechanism_target(request, mechanism, pair)
    guessed = request.delta is None and not target.name.startswith(GALLERY)
    reason = "None was claimed: taken to be 1e-5." if guessed else "As claimed."
    claim, known = target.claim, target.identity
    assert claim is not None

    def work(place: Path, tell: Progress) -> Attack:
        return attack_mechanism(request, target, place, tell, client)

    with stages.directory.opened(request, known or ""):
        # Code that cannot be told from other code may have changed: the result is not of it.
        attack = stages.do("attack_mechanism", Attack, work, again=known is None)
        assessment = Assessment(
            stages.question(
                *(request, f"the mechanism {target.name}", claim.epsilon, claim.delta),
                *(reason, claim),
            ),
            *(None, None, None, None, None),
            attacks=(attack,),
            caveats=(f"Nothing is proved. {_LITTLE}",),
            provenance=stages.provenance(known or ""),
        )
        return stages.report(assessment)


def _assess_release(
    request: Request, stages: _Stages, client: Any, records: Given | None = None
) -> Assessment:
    """Every stage of a release."""
    from sordino.assessment import history
    from sordino.assessment.pages import verified
    from sordino.assessment.plan import AssessmentPlan
    from sordino.assessment.stages import attack, measure, prove, release
    from sordino.data.persons import new_secret
    from sordino.report.result import Attack, Estimated, OwnNoise, Proved, Release

    directory = stages.directory
    with stages.always("read"):
        secret = directory.secret or new_secret()
        plan = AssessmentPlan.of(request, secret, records)
        measure.check(plan)
        attack.check(plan)
        if not directory.released and directory.charged_bundle() is None:
            plan.check_budget()
            history.warn(plan.source)

    def do(stage: str, kind: type[_Result], work: Callable[..., _Result], **more: Any) -> _Result:
        return stages.do(stage, kind, lambda place, tell: work(plan, place, tell, **more))

    with directory.opened(request, plan.fingerprint, secret if plan.persons_counted else b""):
        # Cheap, and files may have been changed: proved anew every time.
        proved = stages.do("prove", Proved, lambda work, tell: prove.prove(plan), again=True)
        own = do("own_noise", OwnNoise, measure.own_noise, client=client)
        estimate = do("release_estimate", Estimated, measure.release_estimate, client=client)
        attacks = (
            do("attack_release", Attack, attack.attack_release, client=client),
            do("attack_plain", Attack, attack.attack_plain, client=client),
        )

        def assessment(released: Release) -> Assessment:
            asked = plan.title, plan.epsilon, *request.delta_and_reason(plan.D.rows)
            return Assessment(
                question=stages.question(request, *asked),
                records=plan.records,
                proved_parts=proved,
                release=released,
                release_estimated=estimate,
                own_noise=own,
                attacks=attacks,
                caveats=tuple(_caveats(plan, proved, released, attacks)),
                provenance=stages.provenance(plan.fingerprint, plan),
            )

        released = do(
            *("release", Release, release.release),
            bundle=directory.root / MODEL,
            rehearse=lambda planned: _render(assessment(planned)),
        )
        # A resumed assessment repeats what it said; what it says of a model must still be so.
        verified(directory.root, released, proved.guarantee)
        return stages.report(assessment(released))


_LITTLE = "An attack that finds little shows little."


def _caveats(
    plan: AssessmentPlan, proved: Proved, released: Release, attacks: tuple[Attack, ...]
) -> Iterator[str]:
    """What an assessment's numbers do not cover, in the order of how much it matters."""
    from sordino.assessment.stages.attack import repeatable

    records = plan.records
    for what in records.reads_private_data:
        yield f"Read off the records beforehand, and not covered by the guarantee: {what}."
    if not plan.prepared.declared:
        yield "How the rows were prepared is not known here: what that read is not covered."
    elif plan.recipe is None and not plan.prepared.description:
        yield "The certificate lacks bounds and levels that were read off the records."
    if records.advice:
        yield records.advice
    for what in () if proved.guarantee is None else proved.guarantee.not_covered:
        if what not in records.reads_private_data:
            yield f"Not covered by the guarantee: {what}."
    if not records.persons:  # else it is among the notes
        yield f"{plan.about_persons[0].upper()}{plan.about_persons[1:]} (--max-rows-per-person)."
    yield "Settings chosen by trying them on these records are not covered (use `sordino.tune`)."
    entry = json.loads(released.certificate)["ledger_entry"] if released.certificate else None
    charged = "No ledger was charged." if entry is None else f"Charged to a ledger, entry {entry}."
    yield f"Every further release from the same records adds to this one. {charged}"
    yield f"{_LITTLE} Its record was crafted; theorems cover all records."
    yield "The estimate is of the records and directions tried, and takes the noise for Gaussian."
    if weak := [each for each in attacks if each.claimed is not None and each.reach <= 0]:
        yield f"{weak[0].runs:,} runs a side are too few to refute the claim without a hypothesis."
    if len(records.classes) > 2:
        yield f"SGD's own noise was measured for {records.classes[0]!r} against the rest."
    if released.accuracy is not None:
        yield "Accuracies, estimates and attacks are not private: only --public pages may leave."
    if plan.fitting is None:
        yield "All trainings used seeds: none of these models may leave."
    elif repeatable(plan.fitting.plan):
        yield "Measured and attacked trainings used seeds; the released model's noise is secret."
    else:
        yield "The attack drew noise from the operating system: it cannot be repeated exactly."
