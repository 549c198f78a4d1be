"""How tight, fast and safe the accountant is, beside its peers, in one run.

    python benchmarks/accounting.py [--json FILE] [--smoke] [--random MANY]

Every configuration of `accounting_configurations.json` (DP-SGD with Poisson sampling, one record
added or removed: what all of them know) is put to sordino, to dp-accounting (privacy loss
distributions, its default grid), to Opacus (its two accountants) and to prv_accountant. Each runs
in a process of its own, warmed up, with 10 seconds and 6 GB for a question; a process that exceeds
them is ended and counted as a failure. Then noise is calibrated by sordino and by dp-accounting,
and both are asked for the epsilon of a person with several records (`MIXTURES`).

A referee (`referee/accounting_exact.py`) recomputes the exact delta at every epsilon answered. An
epsilon whose exact delta is above the delta asked for is false: a promise that does not hold.
Sordino's brackets are refereed, too: a lower end whose exact delta is below the one asked for is
false as well. `max_bracket_width` is the largest of them, over epsilon or over 1e-2 if that is
more; `--random 2000` adds brackets of as many random settings, of every sampling.
`max_looseness_over_pld` leaves out the configurations where dp-accounting's own answer is false;
`max_looseness_over_pld_as_answered` has them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import multiprocessing
import os
import random
import resource
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from referee.accounting_exact import exact_delta
from rich.console import Console
from rich.table import Table

CONFIGURATIONS = Path(__file__).with_name("accounting_configurations.json")
SECONDS = 10.0
CALIBRATION_SECONDS = 180.0
BYTES = 6 * 2**30
THREADS = "2"
TOLERANCE = 1e-4
"""Relative, of the calibrated noise: what sordino promises."""
DOUBT = 1e-3
"""Share by which an exact delta must exceed the one asked for before an answer is called false."""

REQUIRED = {
    "failures": ("<=", 0.0),
    "false_answers": ("<=", 0.0),
    "fallback_share": ("<=", 0.10),
    "max_looseness_over_pld": ("<=", 0.005),
    "max_bracket_width": ("<=", 1e-4),
    "calibrate_speedup_over_dp_accounting": (">=", 4.0),
    "mixture_seconds": ("<=", 0.5),
}
MIXTURES: list[dict[str, float]] = [
    {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000, "delta": 1e-5, "records": 4},
    {"noise_multiplier": 2.0, "sample_rate": 0.05, "steps": 400, "delta": 1e-6, "records": 3},
]
"""Of golden section 12: all records of a person, each drawn by its own coin."""
REQUIRED_OF_RANDOM = {"random_brackets_narrow": (">=", 0.95), "random_brackets_false": ("<=", 0.0)}
SMALLEST_EPSILON = 1e-2
"""A bracket of a smaller one may be 1e-4 of this wide: 1e-6."""
WARM_UP = {"noise_multiplier": 1.0, "sample_rate": 0.02, "steps": 10, "delta": 1e-4}
Question = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a library said: a number, how long it took, and why there is none if there is none."""

    value: float = math.nan
    seconds: float = math.nan
    failure: str = ""
    fell_back: bool = False
    leaked: float = math.nan
    """Exact delta at the answered epsilon, over the delta asked for; NaN if the referee is mute."""

    @property
    def false(self) -> bool:
        """Whether the answer is proved to be too small."""
        return self.leaked > 1 + DOUBT


def profile_of(question: Question, sampling: str = "poisson", replaced: bool = False) -> Any:
    from sordino.accounting import dp_sgd
    from sordino.privacy import Relation

    return dp_sgd.pld(
        question["noise_multiplier"],
        question["sample_rate"],
        int(question["steps"]),
        sampling=sampling,
        relation=Relation.REPLACE_ONE if replaced else Relation.ADD_OR_REMOVE_ONE,
    )


def ours(question: Question) -> tuple[float, bool]:
    profile, delta = profile_of(question), question["delta"]
    fell_back = getattr(profile, "fallbacks", lambda delta: ())(delta)
    return float(profile.epsilon(delta)), bool(fell_back)


@dataclasses.dataclass(frozen=True)
class Bracket:
    """Both ends of an answer of ours, as widths and verdicts of the referee."""

    width: float
    """Relative to epsilon, or to the smallest one that is relative."""
    false: bool = False
    refereed: bool = False

    @classmethod
    def of(cls, question: Question, profile: Any, *, refereed: bool) -> Bracket:
        """Ask for it, and the referee if it knows such a setting."""
        delta = question["delta"]
        lower, upper = profile.bracket(delta)
        width = (upper - lower) / max(upper, SMALLEST_EPSILON) if upper > lower else 0.0
        if not refereed or lower == 0:
            return cls(width, lower > upper)
        leaked = [exact_or_mute(question, epsilon) / delta for epsilon in (lower, upper)]
        false = lower > upper or leaked[0] < 1 - DOUBT or leaked[1] > 1 + DOUBT
        return cls(width, false, not math.isnan(leaked[0]))


def exact_or_mute(question: Question, epsilon: float) -> float:
    """The referee's delta; NaN where its integral has no answer."""
    settings = question["noise_multiplier"], question["sample_rate"], int(question["steps"])
    try:
        return exact_delta(*settings, epsilon)
    except ValueError:
        return math.nan


def random_brackets(many: int) -> dict[str, float]:
    """Brackets of random settings of every sampling; the referee sees one in twenty."""
    draw, brackets = random.Random(22), []
    for at in range(many):
        question = {
            "noise_multiplier": 10 ** draw.uniform(-0.5, 1.3),
            "sample_rate": 10 ** draw.uniform(-5, -0.01),
            "steps": int(10 ** draw.uniform(0, 6)),
            "delta": 10 ** draw.uniform(-12, -3),
        }
        kind = draw.choice([("poisson", False)] * 2 + [("poisson", True), ("fixed-size", True)])
        refereed = at % 20 == 0 and not kind[1]
        brackets.append(Bracket.of(question, profile_of(question, *kind), refereed=refereed))
    narrow = sum(each.width <= REQUIRED["max_bracket_width"][1] for each in brackets)
    return {
        "random_brackets": many,
        "random_brackets_narrow": narrow / many,
        "random_brackets_refereed": sum(each.refereed for each in brackets),
        "random_brackets_false": sum(each.false for each in brackets),
    }


def ours_calibrated(question: Question) -> tuple[float, bool]:
    from sordino.accounting import calibrate
    from sordino.privacy import Relation

    noise = calibrate.noise_multiplier(
        question["epsilon"],
        question["delta"],
        question["sample_rate"],
        int(question["steps"]),
        sampling="poisson",
        relation=Relation.ADD_OR_REMOVE_ONE,
    )
    return noise, False


def dp_event(noise_multiplier: float, question: Question) -> Any:
    import dp_accounting

    step = dp_accounting.GaussianDpEvent(noise_multiplier)
    if question["sample_rate"] < 1:
        step = dp_accounting.PoissonSampledDpEvent(question["sample_rate"], step)
    return dp_accounting.SelfComposedDpEvent(step, int(question["steps"]))


def dp_accounting_pld(question: Question) -> tuple[float, bool]:
    from dp_accounting.pld import PLDAccountant

    event = dp_event(question["noise_multiplier"], question)
    return PLDAccountant().compose(event).get_epsilon(question["delta"]), False


def dp_accounting_calibrated(question: Question) -> tuple[float, bool]:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    # A bracket around the answer favours dp-accounting: sordino has to find its own.
    near = question["near"]
    noise = dp_accounting.calibrate_dp_mechanism(
        PLDAccountant,
        lambda noise: dp_event(noise, question),
        question["epsilon"],
        question["delta"],
        dp_accounting.ExplicitBracketInterval(near / 2, near * 2),
        tol=TOLERANCE * near,
    )
    return float(noise), False


def ours_mixture(question: Question) -> tuple[float, bool]:
    from sordino.accounting import dp_sgd
    from sordino.privacy import Relation

    profile = dp_sgd.pld(
        question["noise_multiplier"],
        question["sample_rate"],
        int(question["steps"]),
        sampling="poisson",
        relation=Relation.ADD_OR_REMOVE_ONE,
        max_rows_per_person=int(question["records"]),
    )
    return profile.epsilon(question["delta"]), False


def dp_accounting_mixture(question: Question) -> tuple[float, bool]:
    from dp_accounting.pld import privacy_loss_distribution

    many, rate = int(question["records"]), question["sample_rate"]
    step = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        question["noise_multiplier"],
        list(range(many + 1)),
        [math.comb(many, j) * rate**j * (1 - rate) ** (many - j) for j in range(many + 1)],
        value_discretization_interval=question.get("grid", 1e-4),
    )
    composed = step.self_compose(int(question["steps"]))
    return composed.get_epsilon_for_delta(question["delta"]), False


def opacus(mechanism: str) -> Callable[[Question], tuple[float, bool]]:
    def ask(question: Question) -> tuple[float, bool]:
        from opacus.accountants import create_accountant

        accountant = create_accountant(mechanism)
        noise, rate = question["noise_multiplier"], question["sample_rate"]
        accountant.history = [(noise, rate, int(question["steps"]))]
        return float(accountant.get_epsilon(question["delta"])), False

    return ask


def prv_accountant(question: Question) -> tuple[float, bool]:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    step = PoissonSubsampledGaussianMechanism(
        noise_multiplier=question["noise_multiplier"], sampling_probability=question["sample_rate"]
    )
    accountant = PRVAccountant(
        prvs=[step],
        max_self_compositions=[int(question["steps"])],
        eps_error=0.01,  # as Opacus sets it
        delta_error=question["delta"] / 1000,
    )
    return float(accountant.compute_epsilon(question["delta"], [int(question["steps"])])[2]), False


LIBRARIES: dict[str, Callable[[Question], tuple[float, bool]]] = {
    "sordino": ours,
    "dp_accounting": dp_accounting_pld,
    "opacus": opacus("prv"),
    "opacus_rdp": opacus("rdp"),
    "prv_accountant": prv_accountant,
    "sordino_calibrate": ours_calibrated,
    "dp_accounting_calibrate": dp_accounting_calibrated,
    "sordino_mixture": ours_mixture,
    "dp_accounting_mixture": dp_accounting_mixture,
}
EPSILON_LIBRARIES = tuple(
    name for name in LIBRARIES if not name.endswith(("_calibrate", "_mixture"))
)


def serve(library: str, pipe: Connection) -> None:
    """Answer questions until the pipe closes; runs in a process of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")  # peers warn about their own limits; only answers count here
    ask = LIBRARIES[library]
    warm_up = library.removesuffix("_calibrate").removesuffix("_mixture")
    LIBRARIES[warm_up](WARM_UP)  # imports are not timed
    pipe.send(Answer())
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            return
        started = time.perf_counter()
        try:
            value, fell_back = ask(question)
        except Exception as error:  # whatever a library raises is its answer
            sentence = str(error).partition("\n")[0]
            pipe.send(Answer(failure=f"{type(error).__name__}: {sentence}"[:60]))
            continue
        seconds = time.perf_counter() - started
        failure = "" if math.isfinite(value) else f"answered {value}"
        pipe.send(Answer(value, seconds, failure, fell_back))


class Worker:
    """One library in a warm process that is ended, and started again, when it takes too long."""

    def __init__(self, library: str, seconds: float = SECONDS) -> None:
        self.library, self.seconds = library, seconds
        self.process: multiprocessing.process.BaseProcess | None = None

    def ask(self, question: Question) -> Answer:
        """Answer, or why there is none."""
        if self.process is None:
            self._start()
        self.pipe.send(question)
        if not self.pipe.poll(self.seconds):
            self.close()
            return Answer(failure=f"over {self.seconds:g} s")
        try:
            answer: Answer = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.close()
            return Answer(failure="its process died")
        return answer

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(self.library, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.pipe.recv()

    def close(self) -> None:
        """End the process; the next question starts another."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def compare(questions: list[Question], console: Console) -> dict[str, list[Answer]]:
    workers = {library: Worker(library) for library in EPSILON_LIBRARIES}
    answers: dict[str, list[Answer]] = {library: [] for library in workers}
    columns = [name.replace("_", " ") for name in workers]
    table = Table("noise", "rate", "steps", "delta", *columns, title="epsilon (seconds)")
    for question in questions:
        # One after the other, so that nobody's time includes another's.
        answered = {library: worker.ask(question) for library, worker in workers.items()}
        for library, answer in refereed(question, answered).items():
            answers[library].append(answer)
        settings = [f"{question[key]:.5g}" for key in WARM_UP]
        table.add_row(*settings, *(cell(answers[library][-1]) for library in workers))
    for worker in workers.values():
        worker.close()
    console.print(table)
    return answers


def refereed(question: Question, answers: dict[str, Answer]) -> dict[str, Answer]:
    """Answers with what they really leak."""
    marked = dict(answers)
    for library, answer in answers.items():
        if answer.failure:
            continue
        leaked = exact_or_mute(question, answer.value) / question["delta"]
        if math.isnan(leaked) and library == "sordino":  # then it is so for the others, too
            break
        marked[library] = dataclasses.replace(answer, leaked=leaked)
    return marked


def cell(answer: Answer) -> str:
    if answer.failure:
        return f"[red]{answer.failure}[/red]"
    star = "*" * answer.fell_back + " [red]FALSE[/red]" * answer.false
    return f"{answer.value:.5g}{star} ({answer.seconds:.2g})"


def looseness(mine: list[Answer], theirs: list[Answer], even_false: bool) -> list[float]:
    """Ours over theirs, less 1, wherever both answered and theirs is not false."""
    found = []
    for our, their in zip(mine, theirs, strict=True):
        if not our.failure and not their.failure and (even_false or not their.false):
            same = our.value == their.value  # 0 and 0 as well
            found.append(0.0 if same else our.value / max(their.value, 1e-300) - 1)
    return found


def speedup(mine: list[Answer], theirs: list[Answer]) -> float:
    """Geometric mean of their time over ours, wherever both answered."""
    pairs = zip(mine, theirs, strict=True)
    logs = [math.log(b.seconds / a.seconds) for a, b in pairs if not a.failure and not b.failure]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def calibrate(questions: list[Question], console: Console) -> float:
    """Total time of dp-accounting over ours; a question it could not finish counts as its limit."""
    mine = Worker("sordino_calibrate", CALIBRATION_SECONDS)
    theirs = Worker("dp_accounting_calibrate", CALIBRATION_SECONDS)
    table = Table(
        *("epsilon", "delta", "rate", "steps", "sordino", "dp accounting"),
        title="calibrated noise multiplier (seconds)",
    )
    spent, needed = 0.0, 0.0
    for question in questions:
        our = mine.ask(question)
        their = theirs.ask({**question, "near": our.value})
        spent += CALIBRATION_SECONDS if our.failure else our.seconds
        needed += CALIBRATION_SECONDS if their.failure else their.seconds
        keys = ("epsilon", "delta", "sample_rate", "steps")
        table.add_row(*(f"{question[key]:g}" for key in keys), cell(our), cell(their))
    mine.close()
    theirs.close()
    console.print(table)
    return needed / spent


def mixtures(questions: list[Question], console: Console) -> dict[str, float]:
    """Slowest answer of ours, and total time of dp-accounting's upper bound over ours."""
    mine = Worker("sordino_mixture", CALIBRATION_SECONDS)
    theirs = Worker("dp_accounting_mixture", CALIBRATION_SECONDS)
    table = Table(
        *("records", "noise", "rate", "steps", "delta", "sordino", "dp accounting"),
        title="epsilon of a person with several records (seconds)",
    )
    pairs = [(mine.ask(question), theirs.ask(question)) for question in questions]
    for question, pair in zip(questions, pairs, strict=True):
        keys = ("records", *WARM_UP)
        table.add_row(*(f"{question[key]:g}" for key in keys), *map(cell, pair))
    mine.close()
    theirs.close()
    console.print(table)
    ours, others = (
        [CALIBRATION_SECONDS if each.failure else each.seconds for each in answers]
        for answers in zip(*pairs, strict=True)
    )
    return {
        "mixture_seconds": max(ours),
        "mixture_speedup_over_dp_accounting": sum(others) / sum(ours),
    }


def measure(smoke: bool, many: int, console: Console) -> dict[str, float]:
    questions = json.loads(CONFIGURATIONS.read_text())
    asked, calibrated, persons = questions["epsilon"], questions["calibrate"], MIXTURES
    if smoke:
        easy = [q for q in asked if 1 < q["steps"] <= 1024 and 0.8 <= q["noise_multiplier"] <= 4]
        asked, calibrated = easy[:4], calibrated[-1:]
        # On a coarser grid, since even one step takes dp-accounting a minute on its own.
        persons = [{**MIXTURES[0], "steps": 20, "grid": 0.01}]
    answers = compare(asked, console)
    brackets = [Bracket.of(each, profile_of(each), refereed=True) for each in asked]
    mine, peer = answers["sordino"], answers["dp_accounting"]
    fallbacks = sum(answer.fell_back for answer in mine)
    loose = looseness(mine, peer, even_false=False)
    figures = {
        "configurations": len(asked),
        "failures": sum(bool(answer.failure) for answer in mine),
        "refereed": sum(not math.isnan(answer.leaked) for answer in mine),
        "false_answers": sum(each.false for each in (*mine, *brackets)),
        "max_bracket_width": max(each.width for each in brackets),
        "fallbacks": fallbacks,
        "fallback_share": fallbacks / len(asked),
        "compared_with_pld": len(loose),
        "max_looseness_over_pld": max(loose),
        "max_looseness_over_pld_as_answered": max(looseness(mine, peer, even_false=True)),
        "min_looseness_over_pld": min(loose),
        "calibrate_speedup_over_dp_accounting": calibrate(calibrated, console),
        "epsilon_speedup_over_dp_accounting": speedup(mine, peer),
        "slowest_seconds": max(answer.seconds for answer in mine if not answer.failure),
        **mixtures(persons, console),
    }
    for library in EPSILON_LIBRARIES[1:]:
        figures[f"failures_{library}"] = sum(bool(answer.failure) for answer in answers[library])
        figures[f"false_answers_{library}"] = sum(answer.false for answer in answers[library])
    figures |= random_brackets(many) if many else {}
    figures["load_average"] = os.getloadavg()[0]
    return figures


def met(name: str, value: float) -> bool:
    sign, bound = (REQUIRED | REQUIRED_OF_RANDOM)[name]
    return value <= bound if sign == "<=" else value >= bound


def show(figures: dict[str, float], smoke: bool, console: Console) -> bool:
    """Print the figures; True if a requirement is not met."""
    table = Table("figure", "value", "required", title="benchmarks/accounting.py")
    for name, value in figures.items():
        verdict = ""
        if name in REQUIRED | REQUIRED_OF_RANDOM and not smoke:
            sign, bound = (REQUIRED | REQUIRED_OF_RANDOM)[name]
            verdict = f"{sign} {bound:g} {'met' if met(name, value) else 'NOT MET'}"
        table.add_row(name, f"{value:,.4g}", verdict)
    console.print(table)
    required = [*REQUIRED, *(name for name in REQUIRED_OF_RANDOM if name in figures)]
    return not smoke and not all(met(name, figures[name]) for name in required)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--random", type=int, default=0, help="brackets of so many settings, too")
    parser.add_argument("--smoke", action="store_true", help="seconds, a few easy ones, for CI")
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, THREADS)
    # A file or a pipe has no width of its own, and the table needs more than the usual 80.
    console = Console(width=None if sys.stdout.isatty() else 150)
    figures = measure(arguments.smoke, arguments.random, console)
    failed = show(figures, arguments.smoke, console)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
