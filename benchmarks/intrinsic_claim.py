"""Is epsilon_i* true? The claim of Hyland & Tople on their four datasets, put to the test.

    python benchmarks/intrinsic_claim.py [--datasets NAME,...] [--runs 20000] [--inits vary,fixed]
                                         [--json FILE] [--markdown FILE] [--smoke]
                                         [--data-dir DIR] [--runs-dir DIR]

For each dataset (logistic regression): the grid of the papers' size, its worst pair, and that many
fresh runs of each dataset of the pair, half of them to learn a direction from and half to test. The
weights as they are against epsilon_i*, and the augmented release against its target: epsilon = 1,
where most of the noise is added, and nine tenths of epsilon_i*, where little is. All verdicts
hold at once, with 99 % confidence. `--runs-dir` keeps grids and runs (INTERNAL: weights without
noise) and uses those that are there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from intrinsic import PAPERS, SMOKE, Paper, logistic
from rich.console import Console

from sordino.data import load as load_data
from sordino.data.catalogue.recipes import Splits
from sordino.intrinsic.grid import load
from sordino.intrinsic.measure import measure
from sordino.intrinsic.summary import Summary, summary
from sordino.types import Floats
from sordino_papers.sgd_noise.claim_audit import ClaimAudit, PapersClaim, examine, fresh_runs

CONFIDENCE = 0.99
"""Of all verdicts together."""
TARGET, SHARE = 1.0, 0.9
RELEASES = ("as trained", f"augmented, epsilon = {TARGET:g}", f"augmented, {SHARE:g} epsilon_i*")


@dataclass(frozen=True)
class Row:
    """One release of one dataset with one kind of initial weights."""

    dataset: str
    release: str
    printed: float
    audit: ClaimAudit

    @property
    def values(self) -> dict[str, Any]:
        """Plain values by name."""
        found = self.audit
        return {
            "dataset": self.dataset,
            "init": found.claim.init,
            "release": self.release,
            "records": list(found.claim.records),
            "runs_tested": found.runs,
            "delta": found.claim.delta,
            "sensitivity": found.claim.sensitivity,
            "sigma_i": found.claim.sigma,
            "added_noise": found.added,
            "claimed_mu": found.claimed_mu,
            "claimed_epsilon": found.tested.epsilon,
            "printed_epsilon": self.printed,
            "isotropic_distance": found.isotropic,
            "directional_distance": found.distance,
            "mu_if_gaussian": found.mu,
            "epsilon_if_gaussian": found.gaussian.epsilon,
            "epsilon_by_band": found.gaussian_band.epsilon,
            "epsilon_plain": found.plain.epsilon,
            "refuted_by_band": found.refuted_by_band,
            "refuted_at_threshold": found.refuted_at_threshold,
            "refuted_by_epsilon": found.refuted_by_epsilon,
            "refuted": found.refuted,
            "detectable_mu": found.detectable,
            "verdict": found.verdict,
        }


def grid(name: str, paper: Paper, splits: Splits, inits: tuple[str, ...], where: Path) -> Summary:
    place = where / name.replace("/", "-")
    measure(logistic(splits), splits.train, paper.seeds, paper.neighbours, init=inits, store=place)
    return summary(load(place))


def runs_of(name: str, splits: Splits, claim: PapersClaim, runs: int, where: Path) -> Floats:
    """The runs kept in `where` for exactly this claim, or new ones."""
    asked = json.dumps(
        {
            "spec": logistic(splits).to_dict(),
            "data": splits.train.fingerprint,
            "init": claim.init,
            "records": claim.records,
            "runs": runs,
        },
        sort_keys=True,
    )
    path = where / f"{name.replace('/', '-')}-{claim.init}-runs.npz"
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["asked"]) == asked:
                return np.asarray(kept["weights"], dtype=np.float64)
    weights = fresh_runs(logistic(splits), splits.train, claim, runs)
    unfinished = path.with_suffix(".part.npz")
    np.savez(unfinished, weights=weights.astype(np.float32), asked=np.array(asked))
    unfinished.replace(path)
    return weights


def rows_of(
    name: str, found: Summary, claim: PapersClaim, weights: Floats, confidence: float
) -> list[Row]:
    observed = found.of(claim.init).by_observed
    assert observed is not None
    star = claim.claimed.epsilon
    targets = {RELEASES[0]: None, RELEASES[1]: TARGET, RELEASES[2]: SHARE * star}
    return [
        Row(
            name,
            release,
            observed.printed.epsilon,
            examine(claim, weights, epsilon=target, confidence=confidence),
        )
        for release, target in targets.items()
        if target is None or target < star  # from epsilon_i* on nothing is added
    ]


COLUMNS = {
    "dataset": "{dataset}",
    "initial weights": "{init}",
    "release": "{release}",
    "claimed mu": "{claimed_mu:.3f}",
    "distance, isotropic": "{isotropic_distance:.3f}",
    "along a direction": "{directional_distance:.3f}",
    "mu >=, if Gaussian": "{mu_if_gaussian:.3f}",
    "claimed epsilon": "{claimed_epsilon:.2f}",
    "epsilon >=, if Gaussian: band": "{epsilon_by_band:.2f}",
    "at a threshold": "{epsilon_if_gaussian:.2f}",
    "epsilon >=, any law": "{epsilon_plain:.2f}",
    "verdict": "{word}",
}


def markdown(rows: list[Row]) -> str:
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for row in rows:
        word = "**refuted**" if row.audit.refuted else "not refuted"
        if not row.audit.refuted:
            word += f" (could from mu {row.audit.detectable:.2f})"
        cells = [form.format(**row.values, word=word) for form in COLUMNS.values()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def flat(rows: list[Row]) -> dict[str, Any]:
    """Figures by name, and the rows."""
    figures: dict[str, Any] = {
        f"{row.dataset}_{row.audit.claim.init}_{short}_{key}": float(row.values[key])
        for row in rows
        for short, release in zip(("trained", "augmented_1", "augmented_09"), RELEASES, strict=True)
        if row.release == release
        for key in ("refuted", "claimed_mu", "mu_if_gaussian", "directional_distance")
    }
    return {**figures, "rows": [row.values for row in rows]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", help="names, with commas; all four of the papers by default")
    parser.add_argument("--inits", default="vary,fixed", help="kinds of initial weights")
    parser.add_argument("--runs", type=int, help="fresh runs of each dataset; default 20,000")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--smoke", action="store_true", help="seconds, on embedded data, for CI")
    parser.add_argument("--data-dir", help="directory of the raw files; default SORDINO_DATA")
    parser.add_argument("--runs-dir", type=Path, help="keep grids and runs here")
    options = parser.parse_args()
    papers = SMOKE if options.smoke else PAPERS
    if options.datasets:
        papers = {name: papers[name] for name in options.datasets.split(",")}
    inits = tuple(options.inits.split(","))
    runs = options.runs or (400 if options.smoke else 20_000)
    confidence = 1 - (1 - CONFIDENCE) / (len(papers) * len(inits) * len(RELEASES))
    console, rows = Console(), list[Row]()
    with tempfile.TemporaryDirectory() as scratch:
        where = options.runs_dir or Path(scratch)
        where.mkdir(parents=True, exist_ok=True)
        for name, paper in papers.items():
            splits = load_data(name, data_dir=options.data_dir)
            found = grid(name, paper, splits, inits, where)
            for init in inits:
                began = time.perf_counter()
                claim = PapersClaim.of(found, init)
                weights = runs_of(name, splits, claim, runs, where)
                trained = time.perf_counter() - began
                new = rows_of(name, found, claim, weights, confidence)
                rows += new
                console.print(f"{name}, {init}: {trained:.0f} s of training", highlight=False)
                for row in new:
                    console.print(f"  {row.release}: {row.audit.verdict}", highlight=False)
    console.print(markdown(rows), highlight=False, soft_wrap=True)
    if options.markdown:
        options.markdown.write_text(markdown(rows))
    if options.json:
        options.json.write_text(json.dumps(flat(rows), indent=2) + "\n")


if __name__ == "__main__":
    main()
