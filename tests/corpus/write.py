"""Write the corpus: `python write.py DIRECTORY`, with the version of sordino it is to be of.

What was written is kept for good (see README.md): this shows how, and is not run again.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_iris

import sordino
from sordino import Ledger, PrivateLinearSVC, PrivateLogisticRegression
from sordino.assessment.run import Silent
from sordino.cli.main import main
from sordino.estimators import methods
from sordino.intrinsic.measure import measure
from sordino.models.constants import ObjectiveSpec
from sordino.release import signature
from sordino.sgd.spec import TrainSpec

COLUMNS = """\
target = "ill"
classes = ["no", "yes"]

[columns.age]
bounds = [0, 120]

[columns.sex]
levels = ["f", "m"]

[columns.ward]
levels = ["north", "south", "east"]
"""
SMALL: dict[str, Any] = {"effort": "quick", "seeds": 20, "neighbours": 2, "audit_runs": 200}


def two() -> tuple[Any, Any]:
    """569 rows, two classes."""
    X, y = load_breast_cancer(return_X_y=True)
    return X[:, :5] / X[:, :5].max(axis=0) / 2, y


def three() -> tuple[Any, Any]:
    """150 rows, three classes."""
    X, y = load_iris(return_X_y=True)
    return X / 10, y


def people(path: Path, rows: int = 160) -> Path:
    """A table of invented people."""
    draw = np.random.default_rng(18)
    age, sex = draw.integers(18, 90, rows), draw.choice(["f", "m"], rows)
    ward = draw.choice(["north", "south", "east"], rows)
    ill = np.where(age + draw.normal(0, 15, rows) > 55, "yes", "no")
    frame = pd.DataFrame({"age": age, "sex": sex, "ward": ward, "ill": ill})
    frame.to_csv(path, index=False)
    return path


def bundles(root: Path) -> None:
    """Models of every method, and of every setting that a certificate writes down."""
    X2, y2 = two()
    X3, y3 = three()
    for name in methods.METHODS:
        if name in ("none", "majority"):
            continue
        save(root, f"{name}-two", PrivateLogisticRegression(method=name, classes=[0, 1]), X2, y2)
        svm = PrivateLinearSVC(
            3.0, method=name, classes=[0, 1, 2], fit_intercept=False, relation="zero-out"
        )
        save(root, f"{name}-three", svm, X3, y3)
    frame = pd.DataFrame(X2, columns=["radius", "texture", "perimeter", "area", "smoothness"])
    words, flags = np.array(["benign", "malign"])[1 - y2], y2.astype(bool)
    start = np.full(6, 0.25)
    made: list[tuple[str, Any, Any, Any]] = [
        ("auto-named", {"epsilon": 2.0, "classes": ["benign", "malign"]}, frame, words),
        ("flags", {"classes": [False, True], "data_norm": 2.0, "l2": 0.01}, X2, flags),
        ("decimals", {"classes": [1.0, 2.0], "delta": 1e-7}, X2, y2 + 1.0),
        ("added", {"relation": "add-or-remove-one", "public_rows": 570, "method": "objective"}),
        ("added-sgd", {"relation": "add-or-remove-one", "public_rows": 570, "method": "dp-sgd"}),
        ("person-output", {"max_rows_per_person": 3, "method": "output-gd"}),
        ("person-steps", {"max_rows_per_person": 2, "method": "noisy-gd", "steps": 20}),
        ("person-agd", {"max_rows_per_person": 2, "method": "dp-agd"}),
        ("started", {"initial_weights": start, "method": "rsgd-ar", "average_every": 1}),
        ("moments", {"method": "dp-sgd", "accountant": "moments", "batch_size": 50, "epochs": 3}),
        ("best", {"method": "dp-sgd", "accountant": "best", "steps": 30, "max_grad_norm": 0.5}),
        ("constant", {"method": "bolt-on", "learning_rate": 0.5, "epochs": 2, "batch_size": 64}),
        ("plain-sgd", {"method": "nsgd", "epochs": 3, "batch_size": 100, "learning_rate": 0.25}),
        ("clipped", {"method": "dp-agd", "max_grad_norm": 0.5, "steps": 9, "learning_rate": 1.0}),
        ("classes-read", {"classes": None}),
        ("large-delta", {"delta": 1e-3}),
        ("seeded", {"random_state": 7}),
        ("infinite", {"epsilon": np.inf}),
        ("without", {"method": "none"}),
        ("majority", {"method": "majority"}),
        ("norm-read", {"data_norm": None}),
    ]  # type: ignore[assignment]
    for name, params, *data in made:
        model = PrivateLogisticRegression(**{"classes": [0, 1], **params})
        save(root, name, model, *(data or (X2, y2)))
    declared = {"preprocessing": ["the largest value of every column"], "tuning": "unknown"}
    save(root, "declared", PrivateLogisticRegression(classes=[0, 1]), X2, y2, **declared)
    save(root, "wide-hinge", PrivateLinearSVC(classes=[0, 1], huber_width=0.25), X2, y2)
    for name, shape in (("tuned", 1.0), ("tuned-poisson", np.inf)):
        candidates = [
            PrivateLogisticRegression(classes=[0, 1], method="noisy-gd", steps=10),
            PrivateLogisticRegression(classes=[0, 1], l2=0.01, method="dp-agd"),
            PrivateLogisticRegression(classes=[0, 1], l2=0.1, method="objective"),
        ]
        best = sordino.tune(
            candidates,
            X2[100:],
            y2[100:],
            score=lambda model: model.score(X2[:100], y2[:100]),
            epsilon=4.0,
            delta=1e-6,
            mean_runs=5,
            shape=shape,
        )
        keep(root, name, best, X2)


def save(root: Path, name: str, model: Any, X: Any, y: Any, **declared: Any) -> None:
    """Fit and keep."""
    keep(root, name, model.fit(X, y), X, **declared)


def keep(root: Path, name: str, model: Any, X: Any, **declared: Any) -> None:
    """The bundle, and beside it what its readers must find."""
    model.save(root / name, **declared)
    every = slice(None, None, max(1, len(X) // 12))
    note(root, name, model, X.iloc[every] if isinstance(X, pd.DataFrame) else X[every])


def note(root: Path, name: str, model: Any, rows: Any) -> None:
    """What readers of a bundle must find in it: labels, no probabilities."""
    promised = model.privacy_
    expected = {
        "estimator": type(model).__name__,
        "method": model.method_,
        "epsilon": None if promised is None else promised.epsilon,
        "delta": None if promised is None else promised.delta,
        "unit": None if promised is None else promised.unit,
        "relation": None if promised is None else promised.relation.value,
        "rows": np.asarray(rows).tolist(),
        "labels": model.predict(rows).tolist(),
    }
    (root / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n")


def shell(root: Path) -> None:
    """What the program writes: a release of a file, signed, and charged to a ledger."""
    table, columns = people(root / "people.csv"), root / "columns.toml"
    columns.write_text(COLUMNS)
    secret = root / "secret.pem"
    signature.new_key(secret, root / "public.pem")
    ledger = root / "ledger.db"
    run("ledger", "init", ledger, "--dataset", "fixed", "--epsilon", 8, "--delta", 1e-3)
    for at, how in enumerate((("--method", "objective"), ("--method", "noisy-gd"), ())):
        run(
            *("release", "--data", table, "--columns", columns, "--epsilon", 1 + at, *how),
            *("--out", root / "bundles" / f"people-{at}", "--sign-with", secret),
            *("--ledger", ledger, "--dataset", "fixed"),
        )
    run("ledger", "spend", ledger, "--dataset", "fixed", "--epsilon", 0.5, "--delta", 1e-6)
    run("ledger", "spend", ledger, "--dataset", "fixed", "--rho", 0.01)
    run(
        *("ledger", "init", ledger, "--dataset", "as you go", "--epsilon", 4, "--delta", 1e-5),
        "--as-you-go",
    )
    X, y = two()
    for epsilon in (0.5, 1.0):
        with Ledger(ledger, dataset="as you go"):
            PrivateLogisticRegression(epsilon, delta=1e-6, classes=[0, 1], method="noisy-gd").fit(
                X, y
            )
    secret.unlink()
    status = {
        name: {
            "epsilon": Ledger(ledger, dataset=name).status().spent.epsilon,
            "entries": len(Ledger(ledger, dataset=name).status().entries),
        }
        for name in ("fixed", "as you go")
    }
    (root / "ledger.json").write_text(json.dumps(status, indent=1) + "\n")
    for path in sorted((root / "bundles").glob("people-*")):
        model = sordino.load(path)
        rows = np.random.default_rng(5).random((12, model.n_features_in_))
        note(path.parent, path.name, model, pd.DataFrame(rows, columns=model.feature_names_in_))


def run(*arguments: object) -> None:
    """The program."""
    sys.argv = ["sordino", *map(str, arguments)]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise


class Stops(Silent):
    """Ctrl-C at the beginning of a stage."""

    def begin(self, stage: str, words: str) -> Any:
        """Stop, if it is this one."""
        if stage == "attack_release":
            raise KeyboardInterrupt
        return super().begin(stage, words)


def studies(root: Path) -> None:
    """Measurements and assessments, finished and stopped half-way."""
    from sordino.data.catalogue.recipes import load as load_dataset

    data = load_dataset("breast-cancer").train
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=20)

    def stop(progress: Any) -> None:
        if progress.cells_done >= 3:
            raise KeyboardInterrupt

    for name, watch in (("measured", None), ("measured-half", stop)):
        try:
            measure(spec, data, 3, 2, checkpoints=2, store=root / name, progress=watch, workers=1)
        except KeyboardInterrupt:
            continue
    asked = {"data": "breast-cancer", "epsilon": 2.0, **SMALL}
    for name, stops in (("assessed", Silent()), ("assessed-half", Stops())):
        try:
            sordino.assess(out=root / name, watch=stops, **asked)
        except KeyboardInterrupt:
            continue


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    where = Path(sys.argv[1])
    (where / "bundles").mkdir(parents=True)
    bundles(where / "bundles")
    shell(where)
    studies(where)
