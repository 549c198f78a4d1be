"""How tight, fast and safe the accountant is, beside its peers, in one run.

    python benchmarks/accounting.py [--json FILE] [--smoke] [--random MANY] [--peer-python PATH]

Every configuration of `accounting_configurations.json` (DP-SGD with Poisson sampling, one record
added or removed: what all of them know) is put to sordino, to dp-accounting (privacy loss
distributions, its default grid), to Opacus (its two accountants) and to prv_accountant. Each runs
in a process of its own, warmed up, with 10 seconds and 6 GB for a question; a process that exceeds
them is ended and counted as a failure. Then noise is calibrated by sordino and by dp-accounting,
both are asked for the epsilon of a person with several records (`MIXTURES`; dp-accounting for both
of its bounds), and sordino for epsilon and noise of random allocation (`ALLOCATIONS`). What
PLD_accounting and Opake say of `SHARED` is asked of another Python that has them: `--peer-python`.

A referee (`referee/accounting_exact.py`) recomputes the exact delta at every epsilon answered. An
epsilon whose exact delta is above the delta asked for is false: a promise that does not hold.
Sordino's brackets are refereed, too, also those of persons and of epochs of two steps: a lower end
whose exact delta is below the one asked for is false as well. Other allocations are held against
epsilons of a reference, where one is known. `max_bracket_width` is the largest bracket of the file,
over epsilon or over 1e-2 if that is more (1e-4 of epsilon, or 1e-6); `--random 2000` adds brackets
of as many random settings, of every sampling.
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
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from referee.accounting_exact import exact_allocation_delta, exact_delta
from rich.console import Console
from rich.table import Table

CONFIGURATIONS = Path(__file__).with_name("accounting_configurations.json")
SECONDS = 10.0
CALIBRATION_SECONDS = 180.0
MIXTURE_SECONDS = 400.0
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
    "allocation_seconds": ("<=", 1.0),
    "allocation_calibrate_seconds": ("<=", 5.0),
    "allocation_start_ratio": ("<=", 1.5),
}
MIXTURES: list[dict[str, float]] = [
    {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000, "delta": 1e-5, "records": 4},
    {"noise_multiplier": 2.0, "sample_rate": 0.05, "steps": 400, "delta": 1e-6, "records": 3},
]
"""Of golden section 12: all records of a person, each drawn by its own coin."""
ALLOCATIONS: list[dict[str, float]] = [
    dict(
        zip(("noise_multiplier", "steps_per_epoch", "epochs", "delta", "exact"), row, strict=False)
    )
    for row in (
        # Of golden section 11, with its epsilon.
        (1.1, 234, 20, 1e-5, 1.27934),
        (2.0, 100, 10, 1e-6, 0.695896),
        (1.0, 10, 1, 1e-5, 2.188848),
        (1.5, 1000, 50, 1e-7, 0.771743),
        # Two steps, which the referee knows.
        (1.0, 2, 5, 1e-5),
        (2.0, 2, 3, 1e-6),
        (4.0, 2, 100, 1e-8),
        # Little noise and much, one epoch and a thousand, up to 10^5 steps each.
        (0.5, 300, 1, 1e-5),
        (0.6, 1000, 1000, 1e-6),
        (0.8, 10_000, 100, 1e-6),
        (1.0, 100_000, 1, 1e-5),
        (0.5, 100_000, 1000, 1e-6),
        (1.0, 100_000, 1000, 1e-6),
        (5.0, 100_000, 1000, 1e-9),
        (20.0, 1000, 1000, 1e-12),
        (50.0, 20, 1000, 1e-5),
    )
]
"""A record added or removed, each in one random step of an epoch."""
SHARED, PEER_SECONDS = 2, 180.0
"""So many of them are asked of peers, which take minutes for one; and for how long."""
PEERS = Path(__file__).parent / "peers" / "allocation.py"
TARGETS: list[dict[str, float]] = [
    {"epsilon": 1.0, "delta": 1e-5, "steps_per_epoch": 234, "epochs": 20},
    {"epsilon": 8.0, "delta": 1e-6, "steps_per_epoch": 1000, "epochs": 100},
    {"epsilon": 1.0, "delta": 1e-6, "steps_per_epoch": 100_000, "epochs": 1000},
]
"""For the noise of random allocation."""
REPLACED: list[dict[str, float]] = [
    {"noise_multiplier": 1.1, "steps_per_epoch": 234, "epochs": 20, "delta": 1e-5},
    {"noise_multiplier": 2.0, "steps_per_epoch": 100, "epochs": 10, "delta": 1e-6},
    {"noise_multiplier": 1.0, "steps_per_epoch": 1000, "epochs": 100, "delta": 1e-6},
    {"noise_multiplier": 1.0, "steps_per_epoch": 100_000, "epochs": 1000, "delta": 1e-6},
]
"""Random allocation where a record is replaced."""
STARTS = 10
"""How often the two programs whose start is compared are run, in turn."""
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
    cpu: float = math.nan
    """User and system time of the process: other work on the machine changes it less."""
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

    return dp_sgd.pld(
        question["noise_multiplier"],
        *run_of(question),
        **settings_of(question, sampling, replaced),
        max_rows_per_person=int(question.get("records", 1)),
    )


def run_of(question: Question) -> tuple[float, int]:
    """Sample rate and steps."""
    if "steps_per_epoch" not in question:
        return question["sample_rate"], int(question["steps"])
    epoch = int(question["steps_per_epoch"])
    return 1 / epoch, epoch * int(question["epochs"])


def settings_of(question: Question, sampling: str, replaced: bool) -> dict[str, Any]:
    from sordino.privacy import Relation

    relation = Relation.REPLACE_ONE if replaced else Relation.ADD_OR_REMOVE_ONE
    if "steps_per_epoch" not in question:
        return {"sampling": sampling, "relation": relation}
    epoch = int(question["steps_per_epoch"])
    return {"sampling": "allocation", "relation": relation, "steps_per_epoch": epoch}


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
        if "exact" in question:  # rounded to its last digit
            near = 1e-6 * question["exact"]
            false = not lower - near <= question["exact"] <= upper + near
            return cls(width, false or lower > upper, True)
        if not refereed or lower == 0:
            return cls(width, lower > upper)
        leaked = [exact_of(question, epsilon) / delta for epsilon in (lower, upper)]
        false = lower > upper or leaked[0] < 1 - DOUBT or leaked[1] > 1 + DOUBT
        return cls(width, false, not math.isnan(leaked[0]))


def exact_of(question: Question, epsilon: float) -> float:
    """The referee's delta, in the worse direction; NaN where its integral has no answer."""
    noise, records = question["noise_multiplier"], int(question.get("records", 1))
    if "steps_per_epoch" in question:
        settings = int(question["steps_per_epoch"]), int(question["epochs"])
        return exact_allocation_delta(noise, *settings, epsilon)
    return exact_delta(noise, *run_of(question), epsilon, records=records)


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

    budget = question["epsilon"], question["delta"]
    settings = settings_of(question, "poisson", replaced=False)
    return calibrate.noise_multiplier(*budget, *run_of(question), **settings), False


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


def ours_replaced(question: Question) -> tuple[float, bool]:
    return float(profile_of(question, replaced=True).epsilon(question["delta"])), False


def dp_accounting_mixture(question: Question) -> tuple[float, bool]:
    from dp_accounting.pld import privacy_loss_distribution

    many, rate = int(question["records"]), question["sample_rate"]
    found = [0.0, 0.0]
    for pessimistic in (False, True):  # as ours, from both sides
        step = privacy_loss_distribution.from_mixture_gaussian_mechanism(
            question["noise_multiplier"],
            list(range(many + 1)),
            [math.comb(many, j) * rate**j * (1 - rate) ** (many - j) for j in range(many + 1)],
            pessimistic_estimate=pessimistic,
            value_discretization_interval=question.get("grid", 1e-4),
        )
        composed = step.self_compose(int(question["steps"]))
        found[pessimistic] = composed.get_epsilon_for_delta(question["delta"])
    return found[True], False


def ours_mixture(question: Question) -> tuple[float, bool]:
    """Both ends, and `epsilon` as well."""
    profile = profile_of(question)
    profile.bracket(question["delta"])
    return profile.epsilon(question["delta"]), False


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
    "sordino_replaced": ours_replaced,
}
EPSILON_LIBRARIES = tuple(
    name for name in LIBRARIES if not name.endswith(("_calibrate", "_mixture", "_replaced"))
)


def serve(library: str, pipe: Connection) -> None:
    """Answer questions until the pipe closes; runs in a process of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")  # peers warn about their own limits; only answers count here
    ask = LIBRARIES[library]
    ask_epsilon = next(LIBRARIES[each] for each in EPSILON_LIBRARIES if library.startswith(each))
    ask_epsilon(WARM_UP)  # imports are not timed
    pipe.send(Answer())
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            return
        started, used = time.perf_counter(), time.process_time()
        try:
            value, fell_back = ask(question)
        except Exception as error:  # whatever a library raises is its answer
            sentence = str(error).partition("\n")[0]
            pipe.send(Answer(failure=f"{type(error).__name__}: {sentence}"[:60]))
            continue
        seconds, cpu = time.perf_counter() - started, time.process_time() - used
        failure = "" if math.isfinite(value) else f"answered {value}"
        pipe.send(Answer(value, seconds, cpu, failure, fell_back))


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
        leaked = exact_of(question, answer.value) / question["delta"]
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
    """Slowest answer of ours, and total time of dp-accounting over ours, each for both bounds."""
    mine = Worker("sordino_mixture", MIXTURE_SECONDS)
    theirs = Worker("dp_accounting_mixture", MIXTURE_SECONDS)
    table = Table(
        *("records", "noise", "rate", "steps", "delta", "sordino", "dp accounting"),
        title="epsilon of a person with several records (CPU seconds, for both bounds)",
    )
    pairs = [(mine.ask(question), theirs.ask(question)) for question in questions]
    for question, pair in zip(questions, pairs, strict=True):
        keys = ("records", *WARM_UP)
        shown = [cell(dataclasses.replace(each, seconds=each.cpu)) for each in pair]
        table.add_row(*(f"{question[key]:g}" for key in keys), *shown)
    mine.close()
    theirs.close()
    console.print(table)
    ours, others = (
        [MIXTURE_SECONDS if each.failure else each.cpu for each in answers]
        for answers in zip(*pairs, strict=True)
    )
    return {
        "mixture_seconds": max(ours),
        "mixture_seconds_dp_accounting": max(others),
        "mixture_speedup_over_dp_accounting": sum(others) / sum(ours),
    }


def allocations(
    asked: list[Question], targets: list[Question], replaced: list[Question], console: Console
) -> dict[str, float]:
    """The slowest epsilon of random allocation, by kind, and the slowest calibration."""
    figures = {}
    for name, library, questions in (
        ("allocation_seconds", "sordino", asked),
        ("allocation_calibrate_seconds", "sordino_calibrate", targets),
        ("allocation_replace_seconds", "sordino_replaced", replaced),
    ):
        worker = Worker(library, CALIBRATION_SECONDS)
        answers = [worker.ask(question) for question in questions]
        worker.close()
        keys = [key for key in questions[0] if key != "exact"]
        table = Table(*keys, "sordino", title=f"{name}: random allocation (CPU seconds)")
        for question, answer in zip(questions, answers, strict=True):
            shown = cell(dataclasses.replace(answer, seconds=answer.cpu))
            table.add_row(*(f"{question[key]:g}" for key in keys), shown)
        console.print(table)
        spent = [math.inf if each.failure else each.cpu for each in answers]
        figures[name] = max(spent)
    return figures


def start_ratio(times: int) -> float:
    """CPU time of `sordino account --sampling allocation` over importing dp-accounting's losses.

    Medians of both, run in turn: user and system time, which other work changes least.
    """
    ours = "from sordino.cli.main import main; main()"
    example = "account --sampling allocation --steps-per-epoch 234 --epochs 20"
    options = [*example.split(), "--noise-multiplier", "1.1", "--delta", "1e-5"]
    programs = {"ours": [ours, *options], "theirs": ["import dp_accounting.pld"]}
    spent: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(times):
        for name, arguments in programs.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", *arguments]
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode:
                return math.inf
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            spent[name].append(used)
    return statistics.median(spent["ours"]) / statistics.median(spent["theirs"])


def peers(python: Path, questions: list[Question], console: Console) -> dict[str, float]:
    """Epsilon of allocation by libraries of another environment, beside ours."""
    libraries = ("pld_accounting", "opake")
    worker = Worker("sordino")
    columns = ("noise", "steps an epoch", "epochs", "delta", "sordino", *libraries)
    table = Table(*columns, title="epsilon of random allocation (seconds)")
    slowest = dict.fromkeys(libraries, 0.0)
    loosest = dict.fromkeys(libraries, 0.0)
    for question in questions:
        ours = worker.ask(question)
        cells = [cell(ours)]
        for library in libraries:
            answer = asked_elsewhere(python, library, question)
            slowest[library] = max(slowest[library], answer.seconds)
            if not answer.failure:
                loosest[library] = max(loosest[library], answer.value / ours.value - 1)
            cells.append(cell(answer))
        keys = ("noise_multiplier", "steps_per_epoch", "epochs", "delta")
        table.add_row(*(f"{question[key]:g}" for key in keys), *cells)
    worker.close()
    console.print(table)
    return {f"allocation_seconds_{name}": value for name, value in slowest.items()} | {
        f"allocation_looseness_{name}": value for name, value in loosest.items()
    }


def asked_elsewhere(python: Path, library: str, question: Question) -> Answer:
    """What a library of another environment says."""
    command, asked = [str(python), str(PEERS), library], json.dumps(question)
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=PEER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer(seconds=PEER_SECONDS, failure=f"over {PEER_SECONDS:g} s")
    if done.returncode:
        return Answer(seconds=0.0, failure=done.stderr.strip().rpartition("\n")[2][:60])
    return Answer(**json.loads(done.stdout.splitlines()[-1]))


def measure(smoke: bool, many: int, elsewhere: Path | None, console: Console) -> dict[str, float]:
    questions = json.loads(CONFIGURATIONS.read_text())
    asked, calibrated, persons = questions["epsilon"], questions["calibrate"], MIXTURES
    allocated, targets, replaced, starts = ALLOCATIONS, TARGETS, REPLACED, STARTS
    if smoke:
        easy = [q for q in asked if 1 < q["steps"] <= 1024 and 0.8 <= q["noise_multiplier"] <= 4]
        asked, calibrated = easy[:4], calibrated[-1:]
        # On a coarser grid, since even one step takes dp-accounting a minute on its own.
        persons = [{**MIXTURES[0], "steps": 20, "grid": 0.01}]
        allocated, targets, replaced, starts = allocated[1:3], targets[:1], replaced[1:2], 1
    answers = compare(asked, console)
    brackets = [Bracket.of(each, profile_of(each), refereed=True) for each in asked]
    others = [
        Bracket.of(each, profile_of(each), refereed=each.get("steps_per_epoch", 2) == 2)
        for each in (*persons, *allocated)
    ]
    mine, peer = answers["sordino"], answers["dp_accounting"]
    fallbacks = sum(answer.fell_back for answer in mine)
    loose = looseness(mine, peer, even_false=False)
    figures = {
        "configurations": len(asked),
        "failures": sum(bool(answer.failure) for answer in mine),
        "refereed": sum(not math.isnan(answer.leaked) for answer in mine),
        "refereed_persons_and_allocations": sum(each.refereed for each in others),
        "false_answers": sum(each.false for each in (*mine, *brackets, *others)),
        "max_bracket_width": max(each.width for each in brackets),
        "max_bracket_width_persons_and_allocations": max(each.width for each in others),
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
        **allocations(allocated, targets, replaced, console),
        "allocation_start_ratio": start_ratio(starts),
    }
    if elsewhere is not None:
        figures |= peers(elsewhere, allocated[:SHARED], console)
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
    parser.add_argument("--peer-python", type=Path, help="a Python with PLD_accounting and Opake")
    parser.add_argument("--smoke", action="store_true", help="seconds, a few easy ones, for CI")
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, THREADS)
    # A file or a pipe has no width of its own, and the table needs more than the usual 80.
    console = Console(width=None if sys.stdout.isatty() else 150)
    elsewhere = arguments.peer_python
    figures = measure(arguments.smoke, arguments.random, elsewhere, console)
    failed = show(figures, arguments.smoke, console)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
