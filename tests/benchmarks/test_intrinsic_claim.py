from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import intrinsic_claim as benchmark  # noqa: E402

from sordino.data import load  # noqa: E402
from sordino_papers.sgd_noise.claim_audit import PapersClaim, examine  # noqa: E402

CLAIM = PapersClaim("vary", 0.1, 0.2, 1e-6, (3, 7), tuple(range(98)))


def test_runs_kept_for_another_claim_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits, trained = load("digits/binary"), []

    def fresh(spec: object, data: object, claim: PapersClaim, runs: int) -> np.ndarray:
        trained.append((claim, runs))
        return np.full((2, runs, 3), 0.5)

    monkeypatch.setattr(benchmark, "fresh_runs", fresh)
    other = dataclasses.replace(CLAIM, records=(3, 8))
    for claim, runs in [(CLAIM, 20), (CLAIM, 20), (other, 20), (other, 30), (CLAIM, 20)]:
        found = benchmark.runs_of("digits/binary", splits, claim, runs, tmp_path)
        np.testing.assert_array_equal(found, np.full((2, runs, 3), 0.5))
    assert trained == [(CLAIM, 20), (other, 20), (other, 30), (CLAIM, 20)]


def test_the_table_has_a_line_a_release_and_its_verdict() -> None:
    noise = 0.2 * np.random.default_rng(0).standard_normal((400, 3))
    far = examine(CLAIM, np.stack([noise, noise + 0.4]))
    near = examine(CLAIM, np.stack([noise, noise]), epsilon=1.0)
    rows = [
        benchmark.Row("people", benchmark.RELEASES[0], 4.0, far),
        benchmark.Row("people", benchmark.RELEASES[1], 4.0, near),
    ]
    head, rule, *lines = benchmark.markdown(rows).splitlines()
    assert {line.count("|") for line in (head, rule, *lines)} == {len(benchmark.COLUMNS) + 1}
    assert lines[0].endswith("| **refuted** |")
    assert lines[1].endswith(f"| not refuted (could from mu {near.detectable:.2f}) |")
    figures = benchmark.flat(rows)
    assert figures["people_vary_trained_refuted"] == 1
    assert figures["people_vary_augmented_1_refuted"] == 0
    assert [row["verdict"] for row in figures["rows"]] == [far.verdict, near.verdict]
