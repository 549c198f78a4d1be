"""How long `sordino assess` takes, and whether its three numbers stay in order, as a user sees it.

    python benchmarks/assess.py [--json FILE] [--smoke] [--data-dir DIR]

Runs the command itself, in a process of its own, and reads what it writes: on the default, on every
embedded dataset, on `adult` if its files are there, and on every entry of the gallery of broken
mechanisms that can be run. Exit code 1 if an attack shows more than is proved, or if a page does
not call a broken mechanism broken in its first line.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sordino.audit import gallery
from sordino.data import DataError, load
from sordino.report import result
from sordino.report.result import Assessment

LIMITS = {"seconds_default": 120.0, "seconds_adult_quick": 90.0}
"""What the two commands in the README may take, on two cores."""
Studies = dict[str, tuple[str, ...]]
STUDIES: Studies = {
    "default": (),  # digits/binary
    "digits": ("--data", "digits"),
    "breast_cancer": ("--data", "breast-cancer"),
}
ADULT: Studies = {"adult_quick": ("--data", "adult", "--quick")}
SMOKE: Studies = {"breast_cancer_quick": ("--data", "breast-cancer", "--quick")}

Figures = dict[str, float | None]


@dataclass(frozen=True)
class Done:
    """One command: how it ended, and what it wrote."""

    seconds: float
    code: int
    assessment: Assessment
    first_line: str

    @property
    def broken(self) -> bool:
        """Whether the page's first line says so."""
        return self.first_line.startswith("BROKEN")


@dataclass
class Found:
    """Figures by name, and what must not happen, a line each."""

    figures: Figures = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


def assess(*options: str, data_dir: Path | None = None) -> Done:
    """Run the command into a directory that is thrown away."""
    command = [str(Path(sys.executable).with_name("sordino")), "assess", *options]
    if data_dir is not None:
        command += ["--data-dir", str(data_dir)]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "study"
        began = time.perf_counter()
        ran = subprocess.run(
            [*command, "--out", str(out)], capture_output=True, text=True, check=False
        )
        seconds = time.perf_counter() - began
        if not (out / "assessment.json").exists():
            sys.exit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stderr}")
        assessment = result.loads((out / "assessment.json").read_bytes())
        page = (out / "report.html").read_text()
    return Done(seconds, ran.returncode, assessment, first_line(page))


def first_line(page: str) -> str:
    """What a page says first, without markup."""
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    return "" if heading is None else re.sub(r"<[^>]*>", "", heading[1]).strip()


def add_study(name: str, done: Done, found: Found) -> None:
    """The figures of one dataset; observed above proved is what must never be."""
    assessment = done.assessment
    proved, observed = assessment.proved, assessment.observed
    released, estimated = assessment.release, assessment.estimated
    if proved is None or observed is None or released is None or released.accuracy is None:
        found.violations.append(f"{name}: {done.first_line}")
        return
    accuracy, over = released.accuracy, observed.epsilon / proved.epsilon
    found.figures |= {
        f"seconds_{name}": done.seconds,
        **{f"seconds_{name}_{at}": each for at, each in assessment.provenance.seconds.items()},
        f"proved_{name}": proved.epsilon,
        f"estimated_{name}": None if estimated is None else estimated.epsilon,
        f"observed_over_proved_{name}": over,
        f"accuracy_before_{name}": accuracy.before.value,
        f"accuracy_after_{name}": None if accuracy.after is None else accuracy.after.value,
        f"accuracy_again_{name}": accuracy.again.value,
    }
    if over > 1 or done.broken or done.code != 0:
        found.violations.append(
            f"{name}: {observed}; {proved}; exit code {done.code}; first line: {done.first_line}"
        )


def add_gallery(done: dict[str, Done], found: Found) -> None:
    """How many broken mechanisms are called broken."""
    called = [name for name, each in done.items() if each.broken and each.code == 1]
    found.figures |= {
        "gallery_entries": float(len(done)),
        "broken_called": float(len(called)),
        "seconds_gallery": sum(each.seconds for each in done.values()),
    }
    for name in done:
        if name not in called:
            found.violations.append(f"gallery:{name} is not called broken: {done[name].first_line}")


def measure(studies: Studies, data_dir: Path | None, console: Console) -> Found:
    """Assess every study."""
    found = Found()
    for name, options in studies.items():
        console.print(f"sordino assess {' '.join(options)}", highlight=False)
        add_study(name, assess(*options, data_dir=data_dir), found)
    return found


def attacked(console: Console) -> dict[str, Done]:
    """Assess every mechanism of the gallery that can be run."""
    done = {}
    for entry in gallery.ENTRIES:
        if entry.case().exact is not None:  # a formula settles it
            continue
        runs = str(entry.smoke_runs)
        console.print(f"sordino assess --mechanism gallery:{entry.name}", highlight=False)
        done[entry.name] = assess("--mechanism", f"gallery:{entry.name}", "--audit-runs", runs)
    return done


def has_adult(data_dir: Path | None) -> bool:
    """Whether the files of `adult` are there and intact."""
    try:
        load("adult", data_dir=data_dir)
    except DataError:
        return False
    return True


def show(found: Found, console: Console) -> None:
    """Print every figure, and what went wrong."""
    table = Table("figure", "value", "required", title="benchmarks/assess.py")
    for name, value in found.figures.items():
        verdict = ""
        if name in LIMITS and value is not None:
            met = "met" if value <= LIMITS[name] else "NOT MET"
            verdict = f"<= {LIMITS[name]:g} {met}"
        table.add_row(name, "-" if value is None else f"{value:,.4g}", verdict)
    console.print(table)
    for line in found.violations:
        console.print(f"VIOLATION {line}", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--smoke", action="store_true", help="one quick assessment, for CI")
    parser.add_argument("--data-dir", type=Path, help="raw files; default: SORDINO_DATA")
    arguments = parser.parse_args()
    console, load_before = Console(), os.getloadavg()[0]
    studies = SMOKE if arguments.smoke else dict(STUDIES)
    if not arguments.smoke and has_adult(arguments.data_dir):
        studies |= ADULT
    found = measure(studies, arguments.data_dir, console)
    if not arguments.smoke:
        add_gallery(attacked(console), found)
    found.figures["violations"] = float(len(found.violations))
    found.figures["load_average_before"] = load_before  # on a busy machine all takes longer
    show(found, console)
    if arguments.json:
        arguments.json.write_text(json.dumps(found.figures, indent=2) + "\n")
    sys.exit(1 if found.violations else 0)


if __name__ == "__main__":
    main()
