"""What the page of an assessment says, section by section: values in, blocks out. INTERNAL."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from itertools import groupby

from sordino.privacy import RELATIONS, Guarantee, Relation
from sordino.report import canvas, words
from sordino.report import page as engine
from sordino.report.drawing import axis, curves
from sordino.report.numbers import (
    about,
    chance,
    confidence,
    lower,
    named,
    percent,
    percent_up,
    seconds,
    settings,
    upper,
    versions,
)
from sordino.report.page import (
    Beside,
    Block,
    Bullets,
    Code,
    Facts,
    Folded,
    Group,
    Heading,
    Line,
    Page,
    Section,
    Span,
    Table,
    Text,
    listed,
)
from sordino.report.result import (
    STAGES,
    Accuracy,
    Assessment,
    Attack,
    Bound,
    Measure,
    OwnNoise,
    Proved,
    Release,
    Triple,
)

_RARELY_WRONG = 0.01
"""False accusations of the attacker for whom the trade-off is said in words."""
_GLOSSARY = (
    (
        "Proved",
        "an upper bound, by a theorem whose conditions were checked: no attack, known or not, "
        "learns more, up to delta. What nobody can check is named as trusted.",
    ),
    (
        "Estimated",
        "what the randomness of the release, added and SGD's own, seems to hide, measured over "
        "many trainings. Other pairs of records may stand out more.",
    ),
    (
        "Observed",
        "a lower bound, won by an attack, with the confidence beside it. A better attack may "
        "observe more.",
    ),
    (
        "Epsilon",
        "how much one record can change what comes out: the odds of any belief about it change by "
        "a factor of at most e (2.718...) to the power of epsilon. 0: not at all.",
    ),
    ("Delta", "the small chance that the promise leaves out."),
)


def page(assessment: Assessment) -> Page:
    """The whole assessment as blocks, for `page.html` or `page.markdown`. INTERNAL."""
    question, found = assessment.question, assessment.provenance
    alarm, title = assessment.broken, f"How private is {question.title}?"
    version = found.versions.get("sordino", "")
    sections = [_numbers(assessment)]
    if not question.mechanism:  # else there is an attack and nothing more
        parts = (_protection, _release, _proof, _noise)
        sections += [part(assessment) for part in parts]
    sections += [part(assessment) for part in (_attacks, _caveats, _provenance, _rerun)]
    return Page(
        title=f"BROKEN: {title}" if alarm else title,
        mark="BROKEN · INTERNAL." if alarm else "INTERNAL.",
        why_marked="Do not publish this page: much of it was computed from the records, and no "
        "guarantee covers that.",
        verdict=words.verdict(assessment),
        subtitle=f"{title} Assessed on {found.date}.",
        notes=tuple(words.notes(assessment)),
        sections=(*sections, glossary()),
        footer=f"Made by sordino {version}. INTERNAL.",
        version=version,
        alarm=alarm,
        loud=alarm,
    )


def fragment(assessment: Assessment) -> str:
    """A box for notebooks: verdict, axis and table, in styles that stay inside it. INTERNAL."""
    return (
        engine.environment("html")
        .get_template("fragment.html.j2")
        .render(
            style=canvas.css(".sordino-box") + "\n" + engine.sheet("fragment.css"),
            verdict=words.verdict(assessment),
            notes=words.notes(assessment),
            axis=axis.axis(assessment),
            numbers=_three_numbers(assessment),
        )
    )


# --- The three numbers


def _numbers(assessment: Assessment) -> Section:
    attack = assessment.attack
    between = "is at least what was observed; nothing limits it"
    if assessment.state == "holds":
        between = "lies between what was observed and what is proved"
    truth = f"The true epsilon {between}."
    if assessment.broken and attack is not None and attack.violated:
        truth = "Observed lies above proved or claimed, which is wrong."
    elif assessment.broken:
        truth = "The attack refuted the proof by the errors of all its thresholds together."
    elif not assessment.question.mechanism:
        truth += " The estimate says where it may be, and promises nothing."
    reading = [
        Text("Epsilon: how much one record can change what comes out.", lead="How to read it."),
        Text(truth, lead="Where the truth lies."),
    ]
    if assessment.question.mechanism:
        text = "Nothing of a mechanism from elsewhere was proved, measured or released here."
        reading.append(Text(text, lead="Only attacked."))
    elif len(assessment.triples) > 1:
        text = "Un-noised SGD is the same model trained in the ordinary way. It is not released."
        reading.append(Text(text, lead="For comparison."))
    shown = Beside((axis.axis(assessment),), tuple(reading))
    return Section("numbers", "The three numbers", (shown, _three_numbers(assessment)))


def _three_numbers(assessment: Assessment) -> Table:
    groups = []
    for of, rows in groupby(words.table(assessment), key=lambda row: row.of):
        cells = tuple(
            (
                Span(row.kind, row.kind),
                row.meaning,
                Span(row.epsilon, row.kind),
                Span(row.delta or "-", "number"),
                row.certainty,
            )
            for row in rows
        )
        groups.append(Group(of, cells))
    head = ("kind", "what it means", "epsilon", "delta", "how sure")
    return Table("Epsilon by kind: smaller is more private", head, tuple(groups))


# --- What is promised, and how it was proved


def _protection(assessment: Assessment) -> Section:
    question, parts, records = assessment.question, assessment.proved_parts, assessment.records
    proved = assessment.proved
    promised = proved is not None and math.isfinite(proved.epsilon)
    blocks = _refuted(assessment)
    if not promised:
        text = "This model may give single records away. Treat it like the records themselves."
        blocks.append(Text(text, lead="Nobody is protected.", tone="warn"))
        if parts is not None and parts.why_none:
            blocks.append(Text(parts.why_none, lead="Why nothing is proved."))
    who = proved if promised else None
    blocks.append(
        Facts(
            (
                ("Released", released(who)),
                ("Protected", "" if who is None else who.unit),
                change(question.relation, question.rows_per_person > 1),
                ("Delta", "" if who is None else f"{upper(who.delta)}, or {delta_means(who)}"),
                ("Why this delta", question.delta_reason),
            )
        )
    )
    if who is not None and parts is not None:
        blocks += attacker(parts, who)
    if records is not None:
        facts = (
            ("Rows", f"{records.rows:,} to train on, {records.test_rows:,} held out"),
            ("Columns", f"{records.columns:,}, the intercept's included"),
            ("Labels", named(records.classes)),
            ("Norm of a row", f"at most {about(records.norm, 6)}, enforced"),
        )
        blocks += [Heading("The records"), Facts(facts), *_bullets(records.notes)]
    return Section("protection", "What is released, and who is protected", tuple(blocks))


def _refuted(assessment: Assessment) -> list[Block]:
    """A warning on top of what an attack showed to be wrong; nothing otherwise."""
    wrong = "Our attack refuted what is proved here: rely on nothing in this section."
    return [Text(wrong, lead="BROKEN.", tone="warn")] if assessment.broken else []


def _bullets(items: tuple[Line, ...]) -> list[Block]:
    return [Bullets(items)] if items else []


def released(proved: Guarantee | None) -> str:
    """What may leave."""
    if proved is None:
        return "nothing should be: no guarantee covers it"
    if proved.released == "final":
        return "the final model, and nothing else that was computed on the way"
    return "the final model; every model on the way to it would be covered, too"


def change(relation: Relation, several: bool, means: str = "") -> tuple[str, str]:
    """Against which change the promise is; `several` records of a person are each changed."""
    each = "for each of these records, " if several else ""
    return "Against which change", f"{each}{means or RELATIONS[relation]} ({relation.value})"


def delta_means(proved: Guarantee) -> str:
    """What delta allows, as a chance."""
    if proved.delta == 0:
        return "no chance at all: the bound on epsilon holds without exception"
    return (
        f"{chance(proved.delta)}: nobody learns more about a person than from a release that keeps "
        "to epsilon but, with that chance, gives the person's records away"
    )


def attacker(parts: Proved, proved: Guarantee) -> list[Block]:
    """What an attacker can do at most."""
    either = "was this record among the data, or was it not?"
    if proved.relation is Relation.REPLACE_ONE:
        either = "was it this record, or that other one in its place?"
    guess = (
        "If both possibilities are equally likely beforehand, the best possible membership guess "
        f"is right at most {percent_up(parts.best_guess)} of the time; a coin, 50%. The guess: "
        f"{either}"
    )
    if proved.epsilon < words.HARDLY_ANYTHING:
        odds = (
            "Seeing the model changes the odds of one possibility against the other by a factor of "
            f"at most {upper(math.exp(proved.epsilon))} (e to the power of "
            f"{upper(proved.epsilon)}), up to delta."
        )
    else:
        odds = f"With epsilon = {upper(proved.epsilon)} the guarantee means next to nothing."
    known = "the records of everybody but the one person who is protected"
    if proved.unit == "one record":
        known = "every record but the one that is protected"
    text = f"has the released model, the method and its settings, and knows or even chose {known}."
    said: list[Block] = [Text(guess, lead="The best guess.")]
    if parts.tradeoff is not None:
        found = percent_up(1 - curves.least_missed(parts.tradeoff, _RARELY_WRONG))
        alarms = (
            "Who raises a false alarm in at most 1 of 100 cases recognises a record that is there "
            f"in at most {found} of the cases."
        )
        said.append(Text(alarms, lead="Few false alarms."))
    said += [Text(odds, lead="The odds."), Text(text, lead="The attacker")]
    heading = Heading("What an attacker can do at most")
    if parts.tradeoff is None:
        return [heading, *said]
    return [heading, Beside(tuple(said), (curves.tradeoff(parts),))]


def _proof(assessment: Assessment) -> Section:
    parts, release = assessment.proved_parts, assessment.release
    if parts is None:
        return Section("proof", "How it was proved", (Text("No theorem was asked."),))
    certified = release is not None and bool(release.certificate)
    return theorems(parts, certified=certified, before=tuple(_refuted(assessment)))


def theorems(parts: Proved, *, certified: bool = True, before: tuple[Block, ...] = ()) -> Section:
    """What every theorem says of a release, or why it says nothing."""
    blocks: list[Block] = [*before]
    if parts.guarantee is None:
        blocks.append(Text(parts.why_none, lead="Nothing is proved.", tone="warn"))
    else:
        again = (
            " It is checked again from the numbers in the certificate whenever that is verified."
        )
        rests = f"The guarantee rests on this statement: {parts.guarantee.theorem}."
        blocks.append(Text(rests + again * certified))
    if parts.facts:
        numbers = tuple((name.capitalize(), text) for name, text in parts.facts.items())
        blocks += [Heading("Numbers of the proof"), Facts(numbers)]
    printed = [bound for bound in parts.bounds if bound.kind == "as printed"]
    others = [bound for bound in parts.bounds if bound not in printed]
    apply = [(bound.epsilon, bound) for bound in others if bound.epsilon is not None]
    if apply:
        rows = tuple(
            (
                bound.name + (", used by the guarantee" if bound.used else ""),
                Span("infinite" if math.isinf(most) else f"at most {upper(most)}", "proved"),
                bound.theorem,
            )
            for most, bound in sorted(apply, key=lambda pair: (pair[0], not pair[1].used))
        )
        head = ("theorem", "epsilon", "statement")
        blocks.append(listed("What each theorem says of this same release", head, *rows))
        blocks += _conditions([bound for _, bound in apply])
    trusted = [each for _, bound in apply for each in bound.checked if each.trusted]
    lines = [each.what + (f" ({each.numbers})" if each.numbers else "") for each in trusted]
    # The guarantee's own list mostly says the same, without numbers.
    known = {each.what for each in trusted}
    assumed = () if parts.guarantee is None else parts.guarantee.assumes
    lines += [each for each in assumed if each not in known]
    if lines:
        blocks += [Heading("Taken on trust"), Bullets(tuple(dict.fromkeys(lines)))]
    silent = [bound for bound in others if bound.epsilon is None]
    if silent:
        reasons = tuple((bound.name, bound.reason or words.NO_REASON) for bound in silent)
        blocks += [Heading("What does not apply, and why"), Facts(reasons)]
    if printed:
        quoted = (
            (each.name, "-" if each.epsilon is None else upper(each.epsilon), each.theorem)
            for each in printed
        )
        table = listed("For comparison: none counts", ("name", "epsilon", "formula"), *quoted)
        blocks += [Heading("Quoted, not proved"), table]
    return Section("proof", "How it was proved", tuple(blocks))


def _conditions(bounds: list[Bound]) -> list[Block]:
    """What was checked: once for all theorems that share it, then what each needs besides."""
    checked = [
        [(each.what, each.numbers or "-") for each in bound.checked if not each.trusted]
        for bound in bounds
    ]
    shared = [row for row in checked[0] if len(bounds) > 1 and all(row in each for each in checked)]
    besides = ", besides" if shared else ""
    needed = [("for every theorem above", shared)]
    for bound, rows in zip(bounds, checked, strict=True):
        needed.append((f"for {bound.name}{besides}", [row for row in rows if row not in shared]))
    groups = tuple(Group(name, tuple(rows)) for name, rows in needed if rows)
    caption = "Preconditions that were checked, and by which numbers"
    return [Table(caption, ("precondition", "numbers"), groups)] if groups else []


# --- The release


def _release(assessment: Assessment) -> Section:
    found = assessment.release
    if found is None:
        return Section("release", "The release", (Text("Nothing was released."),))
    chosen = " (chosen by public facts alone)" if assessment.question.method == "auto" else ""
    made = (
        ("Method", f"{found.method}{chosen}"),
        ("Noise", found.noise),
        ("Source of the noise", found.source),
    )
    blocks: list[Block] = [Facts(made), *folded_settings("Settings of the method", found.settings)]
    blocks += _where(found, broken=assessment.broken)
    blocks.append(Heading("What the privacy costs"))
    if found.accuracy is None:
        blocks.append(Text("No rows were held out: the accuracy of the model is not known."))
    else:
        blocks += _cost(found.accuracy, assessment.question.epsilon)
    return Section("release", "The release", tuple(blocks))


def folded_settings(title: str, values: Mapping[str, object]) -> list[Block]:
    """Settings behind their title; nothing if there are none."""
    given = settings(values)
    return [Folded(f"{title} ({len(given)})", (Facts(given),))] if given else []


def _where(release: Release, *, broken: bool) -> list[Block]:
    if not release.directory:
        why = words.full(release.why_not) or words.NO_REASON
        return [Text(why, lead="No model was written.", tone="warn")]
    place = f'in the directory "{release.directory}" of the study'
    if broken:
        text = f"The weights are {place}. An attack refuted their certificate."
        return [Text(text, lead="They must not leave.", tone="warn")]
    text = f"The weights and their certificate are {place}. Nothing else of the study may leave."
    check = f"sordino certificate verify {shlex.quote(release.directory)}"
    return [Text(text, lead="Where it is."), Code(check, "To check it, in the study:")]


def _cost(found: Accuracy, epsilon: float) -> list[Block]:
    level, share = (confidence(each.level) for each in (found.before, found.again))
    measures = (
        ("without privacy", found.before),
        ("this release", found.after),
        (f"{found.repeats:,} releases like it, mean", found.again),
    )
    rows: list[tuple[Line, ...]] = [
        (name, percent(each.value), Span(_span(each), "number"))
        for name, each in measures
        if each is not None
    ]
    rows.append(("always the most frequent label", percent(found.majority), "-"))
    meaning = (
        f"Exact, over {found.test_rows:,} held-out rows, and so not private. The range of one "
        f"model is its {level} interval, the held-out rows being a sample; that of the releases is "
        f"where {share} of them fall."
    )
    table = listed("Accuracy before and after", ("model", "accuracy", "range"), *rows)
    said: list[Block] = [Text(words.cost(found)), table, Text(meaning)]
    if useless := words.useless(found):
        text = f"{useless[0].upper()}{useless[1:]}"
        said.append(Text(text, lead="Hardly useful.", tone="warn"))
    scores: list[Block] = []
    if rows_of_scores := words.scores(found):
        meaning = (
            "Balanced accuracy: mean over the classes of the share labelled right. AUC: chance "
            "that a row of a class ranks above one of the others. Log-loss: mean of -ln of the "
            "probability given to what is. Calibration error: ECE of ten bins. A support vector "
            "machine gives no probabilities."
        )
        caption = "The same models by other scores"
        scores = [listed(caption, words.SCORES, *rows_of_scores), Text(meaning)]
    if not found.curve:
        return [*said, *scores]
    points = tuple(
        (about(each.epsilon), percent(each.accuracy.value), _span(each.accuracy), str(each.repeats))
        for each in found.curve
    )
    head = ("epsilon", "mean accuracy", "interval of the mean", "releases")
    numbers = listed("Mean accuracy of releases by epsilon, all else equal", head, *points)
    curve = Folded("The accuracy/epsilon curve in numbers", (numbers,), printed=False)
    return [Beside(tuple(said), (curves.accuracy(found, epsilon),)), *scores, curve]


def _span(measure: Measure) -> str:
    return f"{percent(measure.low)} to {percent(measure.high)}"


# --- SGD's own noise


def _noise(assessment: Assessment) -> Section:
    own, estimated = assessment.own_noise, assessment.release_estimated
    if own is None and estimated is None:
        return Section("noise", "SGD's own noise", (Text("It was not measured."),))
    warning = (
        "Everything in this section is an estimate, not a guarantee: measured on some seeds and "
        "some pairs of datasets, taking the noise for Gaussian."
    )
    intro = (
        "Training is random: the seed decides in which order records are seen. If another seed "
        "moves the final weights more than another record does, the seed may hide the record."
    )
    blocks: list[Block] = [Text(warning, tone="warn"), Text(intro)]
    if own is not None:
        facts = Beside((Facts(tuple(_own(own))),), (curves.distances(own),))
        blocks += [Heading("Un-noised SGD"), facts, *_bullets(own.notes)]
    table, after = [], []
    for row in assessment.triples:
        if row.estimated is not None:
            table += _estimates(row)
            after += list(_described(row))
    head = ("way", "epsilon", "interval")
    shown: list[Block] = []
    if table:
        shown = [Table("Estimates, none of them a guarantee", head, tuple(table))]
    if drawn := axis.estimates(assessment):
        shown = [Beside(tuple(shown), (drawn,))]
    blocks += [Heading("The estimates"), *shown, *after]
    return Section("noise", "SGD's own noise", tuple(blocks))


def _own(own: OwnNoise) -> Iterator[tuple[str, str]]:
    yield "Training", own.training
    yield (
        "Measured over",
        f"{own.runs:,} trainings: {own.seeds:,} seeds, each on the records and on "
        f"{own.neighbours:,} neighbouring datasets, and more on the attacked pair",
    )
    sigma = own.sigma
    ends = f"{about(sigma.low)} to {about(sigma.high)}"
    spread = f"{about(sigma.value)} ({confidence(sigma.level)} interval {ends})"
    yield "Sigma: how widely the seed spreads a weight", spread
    seen = f"by {lower(own.sensitivity)} or more"
    yield "One record moves the weights, as seen (the crafted one, too)", seen
    none = own.no_bound or "no bound is known"
    bound = none if own.bound is None else f"by {upper(own.bound)} at most"
    yield "One record moves the weights, as proved", bound
    if own.gaussian_share is not None:
        share = f"{percent(own.gaussian_share, 0)} (a test at 5% would call 95% so if all were)"
        yield "Weights whose noise looks Gaussian", share


def _estimates(row: Triple) -> list[Group]:
    found = row.estimated
    assert found is not None
    ways = [
        ("one sigma for all directions", found.isotropic),
        ("along the most telling direction", found.directional),
    ]
    if found.headline not in (found.isotropic, found.directional):
        ways.append(("on the axis", found.headline))
    rows = tuple(
        (way, Span(f"about {about(each.epsilon)}", "estimated"), words.interval(each))
        for way, each in ways
        if each is not None
    )
    return [Group(row.of, rows)] if rows else []


def _described(row: Triple) -> Iterator[Block]:
    found = row.estimated
    assert found is not None
    lines = found.words
    if found.headline is None:
        yield Text(found.why_none or words.NO_REASON, lead=f"No estimate of {row.of}.")
    else:
        lines = (*lines, f"By {found.headline.method}; {found.headline.caveat}.")
    if lines:
        yield Text("", lead=f"How it was measured for {row.of}.")
        yield Bullets(lines)


# --- The attacks


def _attacks(assessment: Assessment) -> Section:
    found = assessment.attacks
    title = "The attack" if len(found) <= 1 else "The attacks"
    if not found:
        return Section("attack", title, (Text("No attack was made."),))
    intro = (
        "Train many times on a dataset and on a neighbour that differs in one record, and guess "
        "from each result which it was: half of the runs teach the attack, the other half test "
        "it. Whoever guesses better than an epsilon allows has refuted that epsilon. An attack "
        "that finds nothing proves nothing."
    )
    blocks: list[Block] = [Text(intro, lead="The game.")]
    same_pair = len({attack.pair for attack in found}) == 1
    if same_pair:
        blocks.append(Text(_sentence(found[0].pair), lead="The two datasets."))
    groups = []
    for attack in found:
        of = f"On {'' if attack.of == 'un-noised SGD' else 'the '}{attack.of}"
        pair = [] if same_pair else [("The two datasets", attack.pair)]
        refuted = attack.violated or attack.curve_refuted is True
        outcome = Text(_sentence(attack.verdict), "Outcome.", "warn" if refuted else "")
        facts = Facts((*pair, *_attack_facts(attack)))
        blocks += [Heading(of), Beside((outcome, facts), (curves.roc(attack),))]
        groups.append(Group(of if len(found) > 1 else "", tuple(_lower_bounds(attack))))
    caption = "Lower bounds from the same runs. Some assume more, and hold only if that is so"
    head = ("bound, and what it assumes", "epsilon", "confidence")
    return Section("attack", title, (*blocks, Table(caption, head, tuple(groups))))


def _attack_facts(attack: Attack) -> Iterator[tuple[str, str]]:
    observed = attack.observed
    yield "The attack looks at", attack.score
    yield "Runs", f"{attack.runs:,} on each of the two, {attack.tested:,} of them to test"
    claim = "nothing: no epsilon is promised"
    if attack.claimed is not None:
        claim = f"epsilon at most {upper(attack.claimed)} at delta = {about(observed.delta)}"
    yield "To refute", claim
    wrong = about(100 * (1 - observed.confidence))
    curve = ", and the test of the whole curve in as many again"
    sure = f"an audit like this one shows too much in at most {wrong} of 100 cases"
    more = "" if attack.curve_refuted is None else curve
    yield "Confidence", f"{confidence(observed.confidence)}: {sure}{more}"
    yield "Power", f"{attack.tested:,} tested runs could have {_power(attack)}"
    if attack.curve_refuted is not None:
        refuted = "refuted" if attack.curve_refuted else "not refuted"
        yield "The whole curve", f"{refuted} by a second test, over all thresholds"


def _power(attack: Attack) -> str:
    if attack.claimed is None:
        return f"shown an epsilon of {lower(max(attack.reach, attack.observed.epsilon))} at most"
    most = f"an epsilon below {lower(attack.reach)}" if attack.reach > 0 else "no epsilon"
    family = ""
    if attack.gaussian_reach:
        family = f", and one below {lower(attack.gaussian_reach)} if taken for Gaussian"
    return f"refuted {most} of Gaussian noise that leaks all that is allowed{family}"


def _lower_bounds(attack: Attack) -> Iterator[tuple[Line, ...]]:
    found = (attack.observed, *attack.others)
    # All begin with the score, which is said above.
    scores = {observation.attack.partition("; ")[0] for observation in found}
    shared = f"{scores.pop()}; " if len(scores) == 1 else ""
    for observation in found:
        headline = " (the headline)" if observation is attack.observed else ""
        yield (
            observation.attack.removeprefix(shared) + headline,
            Span(f"at least {lower(observation.epsilon)}", "observed"),
            confidence(observation.confidence),
        )


def _sentence(text: str) -> str:
    """`text` with a capital and a full stop."""
    return words.full(f"{text[:1].upper()}{text[1:]}")


# --- How the page ends


def _caveats(assessment: Assessment) -> Section:
    leaks, records = words.not_covered(assessment), assessment.records
    advice = records.advice if records is not None and leaks else ""
    blocks: list[Block] = []
    if leaks:
        lead = "The guarantee does not cover what was read off the records beforehand:"
        blocks.append(Text(f"{'; '.join(leaks)}. {advice}".strip(), lead=lead, tone="warn"))
    known = (*leaks, *filter(None, [advice]))
    blocks += _bullets(
        tuple(each for each in assessment.caveats if not any(part in each for part in known))
    )
    return Section("caveats", "Caveats", tuple(blocks) or (Text("None was recorded."),))


def _provenance(assessment: Assessment) -> Section:
    found, given, release = assessment.provenance, assessment.question.settings, assessment.release
    # Known stages in their order, then others.
    order = sorted(found.seconds, key=lambda stage: [*STAGES, stage].index(stage))
    each = [f"{STAGES.get(stage, stage)} {seconds(found.seconds[stage])}" for stage in order]
    total = seconds(sum(found.seconds.values()))
    facts = (
        ("Date", found.date),
        ("Machine", found.machine),
        ("Versions", versions(found.versions)),
        ("Time", f"{total} together: {'; '.join(each)}" if each else ""),
    )
    blocks: list[Block] = [Facts(facts)]
    if given:
        left_out = ", ".join(
            name.replace("_", " ") for name, value in given.items() if value is None
        )
        asked = settings({name: value for name, value in given.items() if value is not None})
        pairs = (*asked, ("left to sordino", left_out))
        blocks.append(Folded(f"What was asked ({len(given)} settings)", (Facts(pairs),)))
    if found.fingerprint:
        label = "Fingerprint of the records (SHA-256), which lets somebody test a guess of them all"
        blocks.append(Code(found.fingerprint, label))
    if found.specs:
        specs = tuple(Code(spec, name) for name, spec in found.specs.items())
        title = f"The trainings, letter by letter ({len(specs)})"
        blocks.append(Folded(title, specs, printed=False))
    if release is not None and release.certificate:
        code = (Code(release.certificate),)
        blocks.append(Folded("The certificate of the release", code, printed=False))
    return Section("provenance", "Where the numbers come from", tuple(blocks))


def _rerun(assessment: Assessment) -> Section:
    text = "The same command attacks the same mechanism again."
    if not assessment.question.mechanism:
        text = (
            "The same command gives the same estimates and attacks, up to the last digits on "
            "another machine. It also makes another release of the same records: together the two "
            "tell more than either."
        )
    command = [Code(assessment.question.rerun)] if assessment.question.rerun else []
    return Section("rerun", "How to run it again", (Text(text), *command))


def glossary(*, only_proved: bool = False) -> Section:
    """The words; `only_proved` where nothing else is shown."""
    left_out = ("Estimated", "Observed") if only_proved else ()
    pairs = tuple(pair for pair in _GLOSSARY if pair[0] not in left_out)
    return Section("words", "The words", (Facts(pairs),))
