"""What the page of an assessment says, section by section: values in, blocks out. INTERNAL.

A section is a generator of blocks; blocks that hold nothing are not printed.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

from sordino.privacy import RELATIONS, Guarantee, Relation
from sordino.report import canvas, result, words
from sordino.report import numbers as rounding
from sordino.report import page as engine
from sordino.report.drawing import axis, curves
from sordino.report.numbers import about, confidence, lower, name_list, percent, percent_up, upper
from sordino.report.page import Block, Bullets, Code, Facts, Group, Heading, Line, Span, Table, Text
from sordino.report.result import Assessment

_RARELY_WRONG = 0.01
"""False accusations of the attacker for whom the trade-off is said in words."""
_GLOSSARY = {
    "Proved": "an upper bound, by a theorem",
    "Estimated": "measured over many trainings; no bound",
    "Observed": "a lower bound, won by an attack",
    "Epsilon": "how much one record can change what comes out; 0: not at all",
    "Delta": "the small chance that the promise leaves out",
}


def page(assessment: Assessment) -> engine.Page:
    """The whole assessment as blocks, for `page.html` or `page.markdown`. INTERNAL."""
    alarm, found = assessment.broken, assessment.provenance
    title, version = f"How private is {assessment.question.title}?", found.versions.get("sordino")
    return engine.Page(
        title=f"BROKEN: {title}" if alarm else title,
        mark="BROKEN · INTERNAL." if alarm else "INTERNAL.",
        why_marked="Do not publish this page: no guarantee covers all that it shows.",
        verdict=words.verdict(assessment),
        subtitle=f"{title} Assessed on {found.date}.",
        notes=tuple(words.notes(assessment)),
        sections=tuple(
            engine.Section(name, title, tuple(part(assessment)))
            for name, (title, part) in _SECTIONS.items()
            # Of a mechanism there is an attack and nothing more.
            if not assessment.question.mechanism or name not in _OF_RELEASES
        ),
        footer=f"Made by sordino {version or ''}. INTERNAL.",
        version=version or "",
        alarm=alarm,
        loud=alarm,
    )


def fragment(assessment: Assessment) -> str:
    """A box for notebooks: verdict, axis and table, in styles that stay inside it. INTERNAL."""
    template = engine.environment("html").get_template("fragment.html.j2")
    return template.render(
        style=canvas.css(".sordino-box") + "\n" + engine.sheet("fragment.css"),
        verdict=words.verdict(assessment),
        notes=words.notes(assessment),
        axis=axis.axis(assessment),
        numbers=_three_numbers(assessment),
    )


# --- The three numbers


def _numbers(assessment: Assessment) -> Iterator[Block]:
    most = "and what is proved" if assessment.state == "holds" else "and infinity"
    reading = [Text(f"The true epsilon lies between what was observed {most}.")]
    if assessment.question.mechanism:
        reading.append(Text("Nothing was proved, measured or released.", lead="Only attacked."))
    elif len(assessment.triples) > 1:
        reading.append(Text("Un-noised SGD is the same model in ordinary training, not released."))
    yield engine.Beside((axis.axis(assessment),), tuple(reading))
    yield _three_numbers(assessment)


def _three_numbers(assessment: Assessment) -> Table:
    def cells(row: words.TableRow) -> tuple[Line, ...]:
        kind, epsilon = Span(row.kind, row.kind), Span(row.epsilon, row.kind)
        return kind, row.meaning, epsilon, Span(row.delta or "-", "number"), row.certainty

    rows = groupby(words.table(assessment), key=lambda row: row.of)
    groups = tuple(Group(of, tuple(map(cells, each))) for of, each in rows)
    head = ("kind", "what it means", "epsilon", "delta", "how sure")
    return Table("Epsilon by kind: smaller is more private", head, groups)


# --- What is promised, and how it was proved


def _protection(assessment: Assessment) -> Iterator[Block]:
    question, parts, records = assessment.question, assessment.proved_parts, assessment.records
    proved = assessment.proved
    if proved is not None and math.isinf(proved.epsilon):
        proved = None
    yield from _refuted(assessment)
    if proved is None:
        yield Text("Treat this model like the records.", "Nobody is protected.", "warn")
        if parts is not None and parts.why_none:
            yield Text(parts.why_none, lead="Why nothing is proved.")
    unit = "" if proved is None else proved.unit
    delta = "" if proved is None else f"{upper(proved.delta)}, or {delta_means(proved)}"
    whom = change(question.relation, question.rows_per_person > 1)
    first = (("Released", released(proved)), ("Protected", unit), whom)
    yield Facts((*first, ("Delta", delta), ("Why this delta", question.delta_reason)))
    if proved is not None and parts is not None:
        yield from attacker(parts, proved)
    if records is not None:
        yield Heading("The records")
        rows = f"{records.rows:,} to train on, {records.test_rows:,} held out"
        norm = f"at most {about(records.norm, 6)}, enforced"
        columns = f"{records.columns:,}, the intercept's included"
        labels = ("Labels", name_list(records.classes))
        yield Facts((("Rows", rows), ("Columns", columns), labels, ("Norm of a row", norm)))
        yield Bullets(records.notes)


def _refuted(assessment: Assessment) -> Iterator[Block]:
    """A warning on top of what an attack showed to be wrong; nothing otherwise."""
    if assessment.broken:
        yield Text("Our attack refuted this section.", lead="BROKEN.", tone="warn")


def released(proved: Guarantee | None) -> str:
    """What may leave."""
    if proved is None:
        return "nothing should be: no guarantee covers it"
    if proved.released == "final":
        return "the final model, and nothing else"
    return "the final model; every iterate would be covered, too"


def change(relation: Relation, several: bool, means: str = "") -> tuple[str, str]:
    """Against which change the promise is; `several` records of a person are each changed."""
    each = "for each of these records, " if several else ""
    return "Against which change", f"{each}{means or RELATIONS[relation]} ({relation.value})"


def delta_means(proved: Guarantee) -> str:
    """What delta allows, as a chance."""
    if proved.delta == 0:
        return "no chance at all"
    return f"{rounding.chance(proved.delta)}: beyond epsilon no worse than giving all away so often"


def attacker(parts: result.Proved, proved: Guarantee) -> Iterator[Block]:
    """What an attacker can do at most."""
    yield Heading("What an attacker can do at most")
    alone = proved.unit == "one record"
    who, them = ("this record", "records") if alone else ("this person's records", "persons")
    place = "another in its place" if alone else "others in their place"
    other = place if proved.relation is Relation.REPLACE_ONE else "none"
    guess = f"right at most {percent_up(parts.best_guess)} of the time (a coin: 50%)"
    said = [Text(f"Whether it was {who} or {other}: any guess is {guess}.")]
    if parts.tradeoff is not None:
        found = percent_up(1 - curves.least_missed(parts.tradeoff, _RARELY_WRONG))
        said.append(Text(f"At 1% false alarms at most {found} of {them} are recognised."))
    odds = "without a useful limit"
    if proved.epsilon < words.HARDLY_ANYTHING:
        odds = f"at most {upper(math.exp(proved.epsilon))}-fold, up to delta"
    said.append(Text(f"The odds of one answer against the other change {odds}."))
    known = "record" if alone else "person's records"
    said.append(Text(f"The attacker has the model and its settings, and all but that {known}."))
    if parts.tradeoff is None:
        yield from said
    else:
        yield engine.Beside(tuple(said), (curves.tradeoff(parts),))


def _proof(assessment: Assessment) -> Iterator[Block]:
    parts, release = assessment.proved_parts, assessment.release
    if parts is None:
        yield Text("No theorem was asked.")
    else:
        yield from _refuted(assessment)
        yield from theorems(parts, certified=release is not None and bool(release.certificate))


def theorems(parts: result.Proved, *, certified: bool = True) -> Iterator[Block]:
    """What every theorem says of a release, or why it says nothing."""
    assumed: tuple[str, ...] = ()
    if parts.guarantee is None:
        yield Text(parts.why_none, lead="Nothing is proved.", tone="warn")
    else:
        again = " Verifying the certificate checks it again." * certified
        yield Text(f"{parts.guarantee.theorem}.{again}", "The guarantee rests on")
        assumed = parts.guarantee.assumes
    if parts.facts:
        yield Heading("Numbers of the proof")
        yield Facts(tuple((name.capitalize(), text) for name, text in parts.facts.items()))
    printed = [bound for bound in parts.bounds if bound.kind == "as printed"]
    others = [bound for bound in parts.bounds if bound not in printed]
    apply = [(bound.epsilon, bound) for bound in others if bound.epsilon is not None]
    if apply:
        rows: list[tuple[Line, ...]] = []
        for most, bound in sorted(apply, key=lambda pair: (pair[0], not pair[1].used)):
            text = "infinite" if math.isinf(most) else f"at most {upper(most)}"
            name = bound.name + ", used by the guarantee" * bound.used
            rows.append((name, Span(text, "proved"), bound.theorem))
        head = ("theorem", "epsilon", "statement")
        yield engine.listed("What each theorem says of this release", head, *rows)
        yield _conditions([bound for _, bound in apply])
    trusted = [each for _, bound in apply for each in bound.checked if each.trusted]
    lines = [each.what + (f" ({each.numbers})" if each.numbers else "") for each in trusted]
    # The guarantee's own list mostly says the same, without numbers.
    lines += [each for each in assumed if each not in {trust.what for trust in trusted}]
    if lines:
        yield Heading("Taken on trust")
        yield Bullets(tuple(dict.fromkeys(lines)))
    silent = [bound for bound in others if bound.epsilon is None]
    if silent:
        yield Heading("What does not apply, and why")
        yield Facts(tuple((each.name, each.reason or words.NO_REASON) for each in silent))
    if printed:
        yield Heading("Quoted, not proved")
        quoted = (
            (each.name, "-" if each.epsilon is None else upper(each.epsilon), each.theorem)
            for each in printed
        )
        yield engine.listed("For comparison: none counts", ("name", "epsilon", "formula"), *quoted)


def _conditions(bounds: list[result.Bound]) -> Table:
    """What was checked: once for all theorems that share it, then what each needs besides."""
    checked = {
        bound.name: [(each.what, each.numbers or "-") for each in bound.checked if not each.trusted]
        for bound in bounds
    }
    first, *rest = checked.values()
    shared = [row for row in first if rest and all(row in each for each in rest)]
    besides = ", besides" if shared else ""
    needed = {"for every theorem above": shared}
    for name, rows in checked.items():
        needed[f"for {name}{besides}"] = [row for row in rows if row not in shared]
    groups = tuple(Group(name, tuple(rows)) for name, rows in needed.items() if rows)
    caption = "Preconditions that were checked, and by which numbers"
    return Table(caption, ("precondition", "numbers"), groups)


# --- The release


def _release(assessment: Assessment) -> Iterator[Block]:
    found = assessment.release
    if found is None:
        yield Text("Nothing was released.")
        return
    chosen = " (chosen by public facts alone)" if assessment.question.method == "auto" else ""
    made = (("Method", f"{found.method}{chosen}"), ("Noise", found.noise))
    yield Facts((*made, ("Source of the noise", found.source)))
    yield folded_settings("Settings of the method", found.settings)
    place = f'Weights and certificate are in the directory "{found.directory}" of the study'
    if not found.directory:
        why = words.full(found.why_not) or words.NO_REASON
        yield Text(why, lead="No model was written.", tone="warn")
    elif assessment.broken:
        yield Text(f"{place}; an attack refuted them.", "They must not leave.", "warn")
    else:
        yield Text(f"{place}; nothing else may leave.")
        check = f"sordino certificate verify {shlex.quote(found.directory)}"
        yield Code(check, "To check it, in the study:")
    yield Heading("What the privacy costs")
    if found.accuracy is None:
        yield Text("Not known: no rows were held out.")
    else:
        yield from _cost(found.accuracy, assessment.question.epsilon)


def folded_settings(title: str, values: Mapping[str, object]) -> engine.Folded:
    """Settings behind their title."""
    facts = (Facts(rounding.settings(values)),) * bool(values)
    return engine.Folded(f"{title} ({len(values)})", facts)


def _cost(found: result.Accuracy, epsilon: float) -> Iterator[Block]:
    measures = {
        "without privacy": found.before,
        "this release": found.after,
        f"{found.repeats:,} releases like it, mean": found.again,
    }
    rows: list[tuple[Line, ...]] = [
        (name, percent(each.value), Span(_range(each), "number"))
        for name, each in measures.items()
        if each is not None
    ]
    rows.append(("always the most frequent label", percent(found.majority), "-"))
    exact = f"Exact, over {found.test_rows:,} held-out rows, and so not private"
    one, of = confidence(found.before.level), confidence(found.again.level)
    meaning = f"{exact}. Ranges: {one} interval of one model; where {of} of releases fall."
    table = engine.listed("Accuracy before and after", ("model", "accuracy", "range"), *rows)
    said: list[Block] = [Text(words.cost(found)), table, Text(meaning)]
    if useless := words.useless(found):
        said.append(Text(f"{useless[0].upper()}{useless[1:]}", "Hardly useful.", "warn"))
    if found.curve:
        yield engine.Beside(tuple(said), (curves.accuracy(found, epsilon),))
    else:
        yield from said
    if scores := words.scores(found):
        yield engine.listed("Other scores; calibration error in ten bins", words.SCORES, *scores)
    if found.curve:
        points: list[tuple[Line, ...]] = []
        for point in found.curve:
            mean, repeats = point.accuracy, f"{point.repeats:,}"
            points.append((upper(point.epsilon), percent(mean.value), _range(mean), repeats))
        head = ("epsilon", "mean accuracy", "interval of the mean", "releases")
        numbers = engine.listed("Mean accuracy of releases by epsilon", head, *points)
        yield engine.Folded("The accuracy/epsilon curve in numbers", (numbers,), printed=False)


def _range(measure: result.Measure) -> str:
    return f"{percent(measure.low)} to {percent(measure.high)}"


# --- SGD's own noise


def _noise(assessment: Assessment) -> Iterator[Block]:
    own = assessment.own_noise
    known = [row for row in assessment.triples if row.estimated is not None]
    if not known:
        yield Text("It was not measured.")
        return
    warning = "of some seeds and pairs of datasets, the noise taken for Gaussian."
    yield Text(warning, lead="An estimate, not a guarantee:", tone="warn")
    if own is not None:
        yield Heading("Un-noised SGD")
        yield engine.Beside((Facts(tuple(_own(own))),), (curves.distances(own),))
        yield Bullets(own.notes)
    yield Heading("The estimates")
    groups: list[Group] = []
    after: list[Block] = []
    for row in known:
        found = row.estimated
        assert found is not None
        ways = {"one sigma": found.isotropic, "by direction": found.directional}
        if found.headline not in ways.values():
            ways["on the axis"] = found.headline
        rows = tuple(
            (way, Span(f"about {about(each.epsilon)}", "estimated"), words.interval(each))
            for way, each in ways.items()
            if each is not None
        )
        groups += [Group(row.of, rows)] * bool(rows)
        lines = found.words
        if found.headline is None:
            why = found.why_none or words.NO_REASON
            after.append(Text(why, lead=f"No estimate of {row.of}."))
        else:
            lines = (*lines, f"By {found.headline.method}; {found.headline.caveat}.")
        if lines:
            after += [Text("", lead=f"How it was measured for {row.of}."), Bullets(lines)]
    head = ("way", "epsilon", "interval")
    table = Table("Estimates, none of them a guarantee", head, tuple(groups))
    drawn = axis.estimates(assessment)
    yield table if drawn is None else engine.Beside((table,), (drawn,))
    yield from after


def _own(own: result.OwnNoise) -> Iterator[tuple[str, str]]:
    yield "Training", own.training
    grid = f"{own.seeds:,} seeds on {own.neighbours + 1:,} datasets, and the attacked pair"
    yield "Measured over", f"{own.runs:,} trainings: {grid}"
    sigma = own.sigma
    ends = f"{about(sigma.low)} to {about(sigma.high)}"
    spread = f"{about(sigma.value)} ({confidence(sigma.level)} interval {ends})"
    yield "Sigma: how widely the seed spreads a weight", spread
    yield "One record moves the weights, as seen", f"by {lower(own.sensitivity)} or more"
    bound = f"by {upper(own.bound)} at most" if own.bound is not None else own.no_bound
    yield "One record moves the weights, as proved", bound or "no bound is known"
    if own.gaussian_share is not None:
        share = f"{percent(own.gaussian_share, 0)} (95% if all were)"
        yield "Weights whose noise looks Gaussian", share


# --- The attacks


def _attacks(assessment: Assessment) -> Iterator[Block]:
    found = assessment.attacks
    if not found:
        yield Text("No attack was made.")
        return
    game = "Guess from a result on which of two datasets it was trained: half of the runs teach"
    yield Text(f"{game}, half test. Finding nothing proves nothing.")
    same_pair = len({attack.pair for attack in found}) == 1
    if same_pair:
        yield Text(_sentence(found[0].pair), lead="The two datasets.")
    groups = []
    for attack in found:
        of = f"On {'' if attack.of == 'un-noised SGD' else 'the '}{attack.of}"
        yield Heading(of)
        refuted = attack.violated or attack.curve_refuted is True
        outcome = Text(_sentence(attack.verdict), "Outcome.", "warn" if refuted else "")
        pair = ("The two datasets", "" if same_pair else attack.pair)
        yield engine.Beside((outcome, Facts((pair, *_attack_facts(attack)))), (curves.roc(attack),))
        groups.append(Group(of if len(found) > 1 else "", tuple(_lower_bounds(attack))))
    caption = "Lower bounds from the same runs, each with what it assumes"
    yield Table(caption, ("bound", "epsilon", "confidence"), tuple(groups))


def _attack_facts(attack: result.Attack) -> Iterator[tuple[str, str]]:
    observed = attack.observed
    yield "The attack looks at", attack.score
    yield "Runs", f"{attack.runs:,} on each of the two, {attack.tested:,} of them to test"
    claim, most = "nothing", max(attack.reach, observed.epsilon)
    power = f"shown an epsilon of {lower(most)} at most"
    if attack.claimed is not None:
        claim = f"epsilon at most {upper(attack.claimed)} at delta = {about(observed.delta)}"
        less = f"an epsilon below {lower(attack.reach)}" if attack.reach > 0 else "no epsilon"
        power = f"refuted {less} of noise that leaks all that is allowed"
        if attack.gaussian_reach:
            power += f", and one below {lower(attack.gaussian_reach)} if taken for Gaussian"
    yield "To refute", claim
    each = "" if attack.curve_refuted is None else " of each of the two tests"
    yield "Confidence", f"{confidence(observed.confidence)}{each}"
    yield "Power", f"{attack.tested:,} tested runs could have {power}"
    if attack.curve_refuted is not None:
        yield "The whole curve", f"{'' if attack.curve_refuted else 'not '}refuted by a second test"


def _lower_bounds(attack: result.Attack) -> Iterator[tuple[Line, ...]]:
    found = (attack.observed, *attack.others)
    # All begin with the score, which is said above.
    scores = {observation.attack.partition("; ")[0] for observation in found}
    shared = f"{scores.pop()}; " if len(scores) == 1 else ""
    for each in found:
        name = each.attack.removeprefix(shared) + " (the headline)" * (each is attack.observed)
        observed = Span(f"at least {lower(each.epsilon)}", "observed")
        yield name, observed, confidence(each.confidence)


def _sentence(text: str) -> str:
    """`text` with a capital and a full stop."""
    return words.full(f"{text[:1].upper()}{text[1:]}")


# --- How the page ends


def _caveats(assessment: Assessment) -> Iterator[Block]:
    leaks, records = words.not_covered(assessment), assessment.records
    advice = records.advice if records is not None and leaks else ""
    if leaks:
        lead = "Not covered, since read off the records beforehand:"
        yield Text(f"{'; '.join(leaks)}. {advice}".strip(), lead=lead, tone="warn")
    known = (*leaks, *filter(None, [advice]))
    others = [each for each in assessment.caveats if not any(part in each for part in known)]
    yield Bullets(tuple(others) or (("None was recorded.",) * (not leaks)))


def _provenance(assessment: Assessment) -> Iterator[Block]:
    found, given, release = assessment.provenance, assessment.question.settings, assessment.release
    # Known stages in their order, then others.
    order = sorted(found.seconds, key=lambda stage: [*result.STAGES, stage].index(stage))
    times = {stage: rounding.seconds(found.seconds[stage]) for stage in order}
    each = [f"{result.STAGES.get(stage, stage)} {time}" for stage, time in times.items()]
    total = rounding.seconds(sum(found.seconds.values()))
    where = (("Date", found.date), ("Machine", found.machine))
    time = f"{total} together: {'; '.join(each)}" if each else ""
    yield Facts((*where, ("Versions", rounding.versions(found.versions)), ("Time", time)))
    if given:
        open_ = ", ".join(name.replace("_", " ") for name in given if given[name] is None)
        asked = {name: value for name, value in given.items() if value is not None}
        pairs = (*rounding.settings(asked), ("left to sordino", open_))
        yield engine.Folded(f"What was asked ({len(given)} settings)", (Facts(pairs),))
    yield Code(found.fingerprint, "SHA-256 of the records")
    specs = tuple(Code(spec, name) for name, spec in found.specs.items())
    yield engine.Folded(f"The trainings, letter by letter ({len(specs)})", specs, printed=False)
    if release is not None and release.certificate:
        code = (Code(release.certificate),)
        yield engine.Folded("The certificate of the release", code, printed=False)


def _rerun(assessment: Assessment) -> Iterator[Block]:
    if not assessment.question.mechanism:
        yield Text("This makes another release.")
    yield Code(assessment.question.rerun)


def glossary(assessment: Assessment | None = None) -> Iterator[Block]:
    """The words; those of what is proved alone where there is no assessment."""
    left_out = {"Estimated", "Observed"} if assessment is None else set()
    yield Facts(tuple(pair for pair in _GLOSSARY.items() if pair[0] not in left_out))


_SECTIONS: dict[str, tuple[str, Callable[[Assessment], Iterator[Block]]]] = {
    "numbers": ("The three numbers", _numbers),
    "protection": ("What is released, and who is protected", _protection),
    "release": ("The release", _release),
    "proof": ("How it was proved", _proof),
    "noise": ("SGD's own noise", _noise),
    "attack": ("The attacks", _attacks),
    "caveats": ("Caveats", _caveats),
    "provenance": ("Where the numbers come from", _provenance),
    "rerun": ("How to run it again", _rerun),
    "words": ("The words", glossary),
}
_OF_RELEASES = ("protection", "release", "proof", "noise")
