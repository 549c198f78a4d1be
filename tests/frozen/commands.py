"""Every command on small cases, by the command line alone."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from frozen import steady
from frozen.program import answer, bytes_of, key_pair, rows, run, text_file, tree

CORPUS = Path(__file__).parents[1] / "corpus"

Answers = dict[str, Any]


def accounts(many: int, seed: int) -> Answers:
    """`account` on random trainings: every method's epsilon or refusal."""
    draw, found = random.Random(seed), Answers()
    for at in range(many):
        found[f"account {seed} {at}"] = brief(answer("account", *training(draw), "--json"))
    return found


_VALUES = ("noise_multiplier", "steps", "epochs", "batch_size", "epsilon")


def brief(said: Answers) -> Answers:
    """Of what every method says: its value to the bit, or that it refuses; the reason is prose."""
    if "json" not in said:
        return said
    document = said.pop("json")
    methods = {
        each["method"]: [
            next(each[name] for name in _VALUES if name in each),
            "applies" if each["applies"] else "reason" if each["reason"] else "silent",
            *(each["kind"], each["relation"], each["released"], len(each["notes"])),
        ]
        for each in document["rows"]
    }
    return {**said, "best": document["best"], "methods": methods}


def training(draw: random.Random, *, noise: bool = True) -> list[object]:
    """Settings of a random training, some of which nobody may have."""
    how = draw.choice(
        ["poisson", "poisson", "fixed-size", "full", "cyclic", "permute-once", "shuffle"]
    )
    n = draw.choice([50, 400, 1000, 20_000])
    words: list[object] = ["--sampling", how, "--delta", draw.choice([1e-5, 1e-6, 1e-9, 0.01, 0.0])]
    if noise:
        words += ["--noise-multiplier", draw.choice([0.0, 0.3, 0.7, 1.0, 1.3, 2.5, 8.0, 40.0])]
    if how == "full":
        words += ["--n", n]
    elif draw.random() < 0.3:
        words += ["--sample-rate", draw.choice([1e-3, 0.01, 0.1, 0.5, 1.0])]
    else:
        words += ["--n", n, "--batch-size", draw.choice([1, 10, n // 10, n // 7, n // 2, n])]
    if draw.random() < 0.7:
        words += ["--steps", draw.choice([0, 1, 7, 40, 100, 333])]
    else:
        words += ["--epochs", draw.choice([1, 2, 3.5, 8])]
    if draw.random() < 0.5:
        words += ["--relation", draw.choice(["add-or-remove-one", "replace-one", "zero-out"])]
    if draw.random() < 0.25:
        words += ["--release", "all"]
    if draw.random() < 0.2:
        words += ["--keep-last"]
    if draw.random() < 0.75:
        losses = ["logistic", "logistic", "huber-svm", "least-squares", "linear", "mlp", "cnn"]
        words += ["--loss", draw.choice(losses)]
        words += ["--learning-rate", draw.choice([0.05, 0.5, 1.0, 2.0, 9.0])]
        words += ["--l2", draw.choice([0.0, 0.001, 0.01, 0.1])]
        words += ["--max-grad-norm", draw.choice([0.5, 1.0, 3.0])]
        words += ["--data-norm", draw.choice([0.5, 1.0, 2.0])]
        if draw.random() < 0.3:
            words += ["--radius", draw.choice([0.5, 2.0])]
    return words


def calibrations(many: int, seed: int) -> Answers:
    """`calibrate` on random trainings: noise, steps, epochs and sizes of batches."""
    draw, found = random.Random(seed), Answers()
    for at in range(many):
        find = draw.choice(["noise", "noise", "noise", "steps", "epochs", "batch-size"])
        words = training(draw, noise=find != "noise")
        words += ["--epsilon", draw.choice([0.2, 1.0, 3.0, 8.0]), "--find", find]
        found[f"calibrate {seed} {at}"] = brief(answer("calibrate", *words, "--json"))
    return found


def one_sided(said: Answers) -> Answers:
    """Without what was added since: the bracket that each epsilon is the upper end of."""
    for row in said["json"]["rows"]:
        lower, upper = row.pop("bracket") or (0.0, row["epsilon"])
        assert row["epsilon"] is None or lower <= upper <= row["epsilon"]
    return said


def quick(_: Path) -> Answers:
    """What takes a moment: accounting with all its options, power, lists."""
    run_1 = ["--noise-multiplier", 1.1, "--sample-rate", 0.01, "--steps", 200, "--delta", 1e-5]
    full = ["--noise-multiplier", 40, "--sampling", "full", "--n", 10_000, "--steps", 300]
    full += ["--delta", 1e-6, "--loss", "logistic", "--l2", 0.01, "--learning-rate", 2]
    found = {
        "account all": one_sided(
            answer("account", *run_1, "--sampling", "poisson", "--all", "--json")
        ),
        "account hidden": one_sided(answer("account", *full, "--plot", "epsilon.svg", "--json")),
        "account tables": answer("account", *full),
        "account refused": answer("account", *run_1, "--sampling", "sometimes"),
        "account steps and epochs": answer(
            "account", *run_1, "--epochs", 3, "--sampling", "poisson", "--json"
        ),
        "account negative": answer(
            *("account", "--noise-multiplier", -1, "--sampling", "full", "--n", 10, "--steps", 2),
            *("--delta", 1e-5),
        ),
        "calibrate all": answer(
            *("calibrate", "--epsilon", 1, "--delta", 1e-5, "--sample-rate", 0.01, "--steps", 1000),
            *("--sampling", "poisson", "--all", "--json"),
        ),
        "calibrate tables": answer(
            *("calibrate", "--epsilon", 1, "--delta", 1e-5, "--sample-rate", 0.01, "--steps", 100),
            *("--sampling", "poisson", "--plot", "noise.svg"),
        ),
        "calibrate without delta": answer(
            *("calibrate", "--epsilon", 1, "--delta", 0, "--sample-rate", 0.01, "--steps", 10),
            *("--sampling", "poisson"),
        ),
        "data list": answer("data", "list"),
        "data fetch": answer("data", "fetch", "breast-cancer"),
        "data fetch nothing": answer("data", "fetch", "brest-cancer"),
        "version": answer("--version"),
        "help": answer("--help"),
        "no such command": answer("acount"),
        "no such option": answer("account", "--noise", 1),
    }
    for runs, level in ((1000, 0.99), (10_000, 0.95), (37, 0.999)):
        words = ["--runs", runs, "--confidence", level, "--json"]
        found[f"power {runs}"] = answer("audit", "power", *words)
        found[f"power claim {runs}"] = answer(
            "audit", "power", *words, "--epsilon", 1, "--true-epsilon", 2
        )
    found["gallery list"] = answer("audit", "gallery", "--list")
    return found


def _people() -> list[object]:
    for name in ("people.csv", "columns.toml"):
        shutil.copy(CORPUS / name, ".")
    return ["--data", "people.csv", "--columns", "columns.toml"]


def released(here: Path) -> Answers:
    """Certificates, signatures and a ledger: byte by byte."""
    with steady.nameless():
        return _released(here)


def _released(here: Path) -> Answers:
    people, found = _people(), Answers()
    found["data describe"] = {**answer("data", "describe", "people.csv", "--target", "ill")}
    _, printed, _ = run("data", "describe", "people.csv", "--target", "ill")
    found["data describe"]["lines"] = len(printed.splitlines())
    found["new-key"] = answer("certificate", "new-key", "new.pem", "new.public.pem")
    key_pair(Path("secret.pem"), Path("public.pem"))
    book = ["--ledger", "ledger.db", "--dataset", "people"]
    found["ledger init"] = answer(
        *("ledger", "init", "ledger.db", "--dataset", "people", "--epsilon", 9, "--delta", 1e-3)
    )
    for words in (
        ["amend", "ledger.db", "--dataset", "people", "--epsilon", 12],
        ["spend", "ledger.db", "--dataset", "people", "--mu", 0.3, "--dry-run"],
        ["spend", "ledger.db", "--dataset", "people", "--mu", 0.3, "--note", "a histogram"],
        ["spend", "ledger.db", "--dataset", "people", "--rho", 0.01],
        ["spend", "ledger.db", "--dataset", "people", "--epsilon", 0.5, "--delta", 1e-6],
        ["spend", "ledger.db", "--dataset", "people", "--epsilon", 90, "--delta", 1e-6],
        ["spend", "ledger.db", "--dataset", "nobody", "--mu", 0.3],
    ):
        found[f"ledger {words[0]} {len(found)}"] = answer("ledger", *words)
    methods = [
        "rsgd-ar",
        "nsgd",
        "bolt-on",
        "output-gd",
        "noisy-gd",
        "dp-sgd",
        "objective",
        "dp-agd",
    ]
    for method in methods:
        where = Path(f"model-{method}")
        words = [*people, "--epsilon", 1, "--delta", 1e-5, "--method", method, "--out", where]
        words += ["--sign-with", "secret.pem", *book, "--json"]
        found[f"dry {method}"] = answer("release", *words, "--dry-run")
        found[f"release {method}"] = answer("release", *words)
        found[f"bundle {method}"] = {
            "files": tree(where),
            "certificate": text_file(where / "certificate.json"),
            "weights": bytes_of(where / "model.safetensors"),
            "signature": bytes_of(where / "certificate.json.sig"),
        }
        found[f"certificate show {method}"] = answer("certificate", "show", where, "--json")
        found[f"certificate verify {method}"] = answer(
            "certificate", "verify", where, "--key", "public.pem"
        )
    for name, words in {
        "svm": ["--model", "svm", "--relation", "zero-out"],
        "added": ["--relation", "add-or-remove-one", "--public-rows", 160],
        "persons": ["--max-rows-per-person", 3, "--method", "output-gd"],
        "none": ["--method", "none"],
        "wrong": ["--method", "nun"],
        "l2": ["--l2", 0.1, "--data-norm", 2, "--tuning", "unknown"],
    }.items():
        words = [*people, "--epsilon", 2, *words, "--out", f"more-{name}", "--json"]
        found[f"release {name}"] = answer("release", *words)
    found["release too much"] = answer(
        *("release", *people, "--epsilon", 50, "--out", "too-much", *book)
    )
    found["release named"] = answer(
        *("release", "--data", "breast-cancer", "--epsilon", 2, "--out", "named", "--json")
    )
    found["sign"] = answer("certificate", "sign", "more-svm", "--key", "secret.pem")
    forged = Path("more-svm/certificate.json")
    forged.write_text(forged.read_text().replace('"delta": ', '"delta": 0'))
    found["verify forged"] = answer("certificate", "verify", "more-svm")
    found["show forged"] = answer("certificate", "show", "more-svm", "--json")
    found["ledger show"] = answer("ledger", "show", "ledger.db", "--json")
    found["ledger show words"] = answer("ledger", "show", "ledger.db")
    found["ledger head"] = answer("ledger", "head", "ledger.db")
    found["ledger verify"] = answer("ledger", "verify", "ledger.db")
    found["ledger rows"] = rows(here / "ledger.db")
    return found


def corpus(_: Path) -> Answers:
    """What earlier versions wrote, as it is read today."""
    shutil.copytree(CORPUS, "corpus")
    found = Answers()
    found["corpus ledger"] = answer("ledger", "show", "corpus/ledger.db", "--json")
    for bundle in sorted(Path("corpus/bundles").iterdir()):
        if bundle.is_dir():
            found[f"corpus {bundle.name}"] = answer("certificate", "verify", bundle)
            said = answer("certificate", "show", bundle, "--json")
            written = json.loads((bundle / "certificate.json").read_text())
            found[f"corpus show {bundle.name}"] = {**said, "json": said.get("json") == written}
    return found


def attacked(_: Path) -> Answers:
    """Audits of a few hundred runs."""
    found = Answers()
    for method in ("rsgd-ar", "noisy-gd", "dp-sgd", "objective"):
        words = ["--data", "breast-cancer", "--rows", 100, "--method", method, "--epsilon", 1]
        found[f"audit {method}"] = answer("audit", *words, "--runs", 200, "--json")
    words = ["--data", "breast-cancer", "--rows", 100, "--method", "output-gd", "--epsilon", 4]
    for score in ("likelihood", "loss"):
        found[f"audit by {score}"] = answer(
            "audit", *words, "--runs", 400, "--score", score, "--seed", 3, "--json"
        )
    found["audit worst pair"] = answer(
        "audit", *words, "--runs", 200, "--neighbour", "worst-case", "--model", "svm", "--json"
    )
    found["worst-case"] = answer(
        *("audit", "worst-case", "--sample-rate", 0.1, "--steps", 100, "--epsilon", 4),
        *("--runs", 2000, "--json"),
    )
    found["worst-case noise"] = answer(
        *("audit", "worst-case", "--sample-rate", 0.5, "--steps", 12, "--noise-multiplier", 1),
        *("--runs", 1000, "--seed", 5, "--json"),
    )
    return found


def gallery(_: Path) -> Answers:
    """Broken mechanisms and their twins."""
    return {"gallery": answer("audit", "gallery", "--smoke", "--json")}


def measured(_: Path) -> Answers:
    """A study: what it says, what lies on the disk, chunk by chunk."""
    found = Answers()
    words = ["--data", "breast-cancer", "--seeds", 4, "--neighbours", 3, "--steps", 20]
    found["measure"] = answer("measure", *words, "--checkpoints", 2, "--out", "study")
    study = Path("study")
    names = [name for name in tree(study) if not Path(name).name.startswith(".")]
    found["study"] = {
        "files": names,
        "study.json": text_file(study / "study.json"),
        **{name: text_file(study / name) for name in names if name.startswith("cells/")},
        **{name: text_file(study / name) for name in names if name.endswith("zarr.json")},
        **{name: bytes_of(study / name) for name in names if "/c." in name},
    }
    found["measure again"] = answer("measure", *words, "--checkpoints", 2, "--out", "study")
    found["measure other"] = answer("measure", *words, "--checkpoints", 4, "--out", "study")
    found["measure show"] = answer("measure", "show", "study", "--json")
    found["measure show delta"] = answer("measure", "show", "study", "--delta", 1e-3, "--json")
    found["measure show words"] = answer("measure", "show", "study")
    found["figures"] = answer("measure", "show", "study", "--figures", "figures", "--json")
    found["figures"]["files"] = tree(Path("figures"))
    people = _people()
    for model, more in {"svm": ["--l2", 0.01], "mlp": [], "logistic": ["--init", "fixed"]}.items():
        words = [*people, "--model", model, "--seeds", 3, "--neighbours", 2, "--steps", 12]
        words += ["--batch-size", 16, "--learning-rate", 0.2, *more, "--out", f"study-{model}"]
        found[f"measure {model}"] = answer("measure", *words)
        found[f"measure show {model}"] = answer("measure", "show", f"study-{model}", "--json")
    words = [*people, "--seeds", 3, "--neighbours", 2, "--until-converged", "--out", "converged"]
    found["measure converged"] = answer("measure", *words)
    found["measure show converged"] = answer("measure", "show", "converged", "--json")
    found["audit of a study"] = answer(
        *("audit", "--data", "breast-cancer", "--method", "output-gd", "--epsilon", 1),
        *("--study", "study", "--runs", 200, "--json"),
    )
    return found


SMALL: list[object] = ["--quick", "--seeds", 20, "--neighbours", 2, "--audit-runs", 200]


def assessed(_: Path) -> Answers:
    """Assessments: assessment.json, pages, public pages."""
    people, found = _people(), Answers()
    asked = {
        "people": [*people, "--epsilon", 2],
        "objective": [*people, "--epsilon", 1, "--method", "objective", "--model", "svm"],
        "steps": [*people, "--epsilon", 1, "--method", "noisy-gd"],
        "network": [*people, "--epsilon", 2, "--model", "mlp"],
        "broken": ["--mechanism", "gallery:fixed-seed"],
    }
    for name, words in asked.items():
        linear = name not in ("network", "broken")
        small = SMALL if name != "broken" else ["--quick", "--audit-runs", 200]
        more = ["--public"] if linear else []
        found[f"assess {name}"] = answer("assess", *words, *small, "--out", name, *more)
        place = Path(name)
        found[f"assessment {name}"] = {
            "assessment.json": text_file(place / "assessment.json"),
            "files": [each for each in tree(place) if not each.startswith("work/")],
        }
        for form in ("json", "md", "html"):
            for public in ([], ["--public"]):
                said = f"report {name} {form} {' '.join(public)}".strip()
                found[said] = answer("report", name, "--format", form, "--out", "-", *public)
    found["write study"] = answer("assess", *people, "--write-study")
    found["assess nothing"] = answer("assess", "--data", "nobody.csv", "--out", "nothing")
    return found


def reproduced(_: Path) -> Answers:
    """Claims of the papers that take seconds."""
    found = {"reproduce list": answer("reproduce", "list")}
    claims = ["notes", "v1/slips", "chen/section-4", "annamalai/section-4", "v1/section-3"]
    found["reproduce"] = answer("reproduce", *claims, "--quick", "--out", "reproduction")
    place = Path("reproduction")
    found["reproduction"] = {
        "results.json": text_file(place / "results.json"),
        "files": [name for name in tree(place) if "/" not in name],
    }
    found["reproduce nothing"] = answer("reproduce", "v9/table-1")
    return found
