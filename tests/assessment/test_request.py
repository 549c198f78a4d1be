from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from sordino.assessment.request import Request
from sordino.data.columns import Column
from sordino.errors import InvalidArgument
from sordino.estimators import methods
from sordino.privacy import default_delta

HARDER = {
    "effort": "thorough",
    "seeds": 99,
    "neighbours": 3,
    "audit_runs": 64,
    "confidence": 0.9,
}
GRIDS = ["own_noise", "release_estimate"]
ATTACKS = ["attack_release", "attack_plain", "attack_mechanism"]
DESCRIBED = {"age": {"bounds": [0, 120]}, "sex": {"levels": ["f", "m"]}, "id": {"ignore": True}}


def test_it_is_light_to_import() -> None:
    program = (
        "import sys\n"
        "from sordino.assessment.request import Request; Request(epsilon=2, effort='quick')\n"
        "Request.from_toml(Request.template())\n"
        "print([m for m in ('numpy', 'pandas', 'sklearn', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"delta": 1.5}, "delta"),
        ({"l2": -1}, "l2"),
        ({"max_rows_per_person": 0}, "max_rows_per_person"),
        ({"max_rows_per_person": None}, "max_rows_per_person"),
        ({"max_rows_per_person": 1.5}, "max_rows_per_person"),
        ({"max_rows_per_person": 10**6}, "max_rows_per_person"),
        ({"data_norm": 0}, "data_norm"),
        ({"data_norm": 1e31}, "data_norm"),
        ({"seeds": 19}, "seeds"),
        ({"neighbours": 1}, "neighbours"),
        ({"audit_runs": 63}, "audit_runs"),
        ({"audit_runs": True}, "audit_runs"),
        ({"confidence": 0.5}, "confidence"),
        ({"confidence": 1}, "confidence"),
        ({"model": "logistics"}, "model"),
        ({"model": 3}, "model"),
        ({"effort": "fast"}, "effort"),
        ({"method": "rsgd-a"}, "method"),
        ({"method": "none"}, "method"),
        ({"method": "majority"}, "method"),
        ({"model": "mlp", "method": "rsgd-ar"}, "method"),
        ({"data": ""}, "data"),
        ({"data": "a\udc80.csv"}, "data"),
        ({"target": 3}, "target"),
        ({"classes": "no"}, "--classes"),
        ({"classes": ["no"]}, "classes"),
        ({"classes": 3}, "classes"),
        ({"classes": [None, 1]}, "classes"),
        ({"described": {"age": {"bound": [0, 1]}}}, "key of column age"),
        ({"described": {"age": {"bounds": [1, 1]}}}, "bounds of column age"),
        ({"described": {"y": {"ignore": True}}, "target": "y"}, "columns"),
        ({"described": ["age"]}, "described"),
        ({"described": DESCRIBED, "columns": "c.toml"}, "columns"),
        ({"pair": "m:p"}, "pair"),
        ({"mechanism": "m"}, "mechanism"),
        ({"mechanism": "m:f", "pair": "p"}, "pair"),
        ({"mechanism": "m:f", "seeds": 30}, "seeds"),
        ({"mechanism": "m:f", "pair": "m:p", "target": "y"}, "target"),
        ({"mechanism": "m:f", "person": "who"}, "person"),
        ({"person": 3}, "person"),
    ],
)
def test_what_cannot_be_assessed_is_one_sentence(given: dict, argument: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Request(**given)
    assert refused.value.argument == argument
    assert "\n" not in str(refused.value)


def test_every_method_that_promises_something_may_be_asked_for() -> None:
    for name in set(methods.NAMES) - {"none", "majority"}:
        assert Request(method=name).method == name
    assert Request(model="mlp", method="dp-sgd").method == "dp-sgd"


def test_the_effort_decides_what_is_not_given() -> None:
    quick, usual, much = (Request(effort=name) for name in ("quick", "standard", "thorough"))
    assert [each.limits.seeds for each in (quick, usual, much)] == [32, 98, 200]
    assert [each.limits.neighbours for each in (quick, usual, much)] == [16, 50, 100]
    assert [each.limits.audit_runs for each in (quick, usual, much)] == [1_000, 40_000, 100_000]
    assert [each.limits.repeats for each in (quick, usual, much)] == [5, 20, 50]
    given = replace(quick, seeds=20, neighbours=2, audit_runs=64)
    assert (given.limits.seeds, given.limits.neighbours, given.limits.audit_runs) == (20, 2, 64)


@pytest.mark.parametrize(("effort", "points"), [("quick", 5), ("standard", 7), ("thorough", 9)])
@pytest.mark.parametrize("epsilon", [1.0, 0.1234, 37.0])
def test_the_curve_goes_from_a_tenth_to_ten_times_the_target(effort, points, epsilon) -> None:
    curve = Request(effort=effort).epsilons_around(epsilon)
    assert len(curve) == points
    assert curve[points // 2] == epsilon
    # Two digits: at most 5 % off.
    assert curve[0] == pytest.approx(epsilon / 10, rel=0.05)
    assert curve[-1] == pytest.approx(epsilon * 10, rel=0.05)
    ratios = np.diff(np.log(curve))
    assert ratios.max() < 2 * ratios.min()
    assert all(float(f"{each:.2g}") == each for each in curve if each != epsilon)


def test_the_default_delta_is_exactly_what_it_prints() -> None:
    cases = {447: "5e-06", 448: "4e-06", 1000: "1e-06", 1001: "9e-07", 1294: "5e-07", 3: "0.01"}
    assert {rows: repr(default_delta(rows)) for rows in cases} == cases
    for rows in range(10, 3000, 7):
        delta = default_delta(rows)
        assert delta <= 1 / rows**2 * (1 + 1e-15)
        # One digit more would be above.
        digit, power = f"{delta:.0e}".split("e")
        assert float(f"{int(digit) + 1}e{power}") > 1 / rows**2


def test_delta_comes_with_its_reason() -> None:
    delta, reason = Request().delta_and_reason(1294)
    assert delta == 5e-07
    assert "1 / N^2 for N = 1,294 records" in reason
    assert Request(delta=1e-5).delta_and_reason(1294) == (1e-5, "As given.")
    delta, reason = Request(delta=1e-4).delta_and_reason(1294)
    assert delta == 1e-4
    assert "above 0.1 / N for N = 1,294 records" in reason
    assert Request().delta_and_reason(None)[0] == 1e-5


def test_descriptions_are_made_plain_and_handed_on(tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.touch()
    request = Request(
        data=path,
        target="ill",
        classes=np.array([0, 1]),
        described={"age": {"bounds": (np.float64(0), 120)}, "sex": {"levels": ("f", "m")}},
    )
    assert request.data == str(path)
    assert request.classes == (0, 1)
    known = request.source().described()
    assert known.classes == (0, 1)
    assert known.columns == {"age": Column(bounds=(0, 120)), "sex": Column(levels=("f", "m"))}
    assert not known.read_from_data
    assert replace(request, read_from_data=True).source().described().read_from_data


def test_options_come_before_the_file() -> None:
    request = Request(epsilon=2.0, described=DESCRIBED, read_from_data=True)
    assert request.with_options(epsilon=None, effort=None) == request
    assert request.with_options(epsilon=3.0) == replace(request, epsilon=3.0)
    other = request.with_options(columns="c.toml")
    assert (other.columns, other.described, other.read_from_data) == ("c.toml", {}, False)
    with pytest.raises(InvalidArgument, match="epsilon=0 > 0"):
        request.with_options(epsilon=0)
    with pytest.raises(InvalidArgument, match="Did you mean audit_runs"):
        request.with_options(audit_run=100)


def test_differences_are_said_with_both_values(tmp_path, monkeypatch) -> None:
    request = Request(data="people.csv", target="ill", classes="0,1", described=DESCRIBED)
    assert request.differences(request) == []
    assert replace(request, epsilon=2).differences(request) == ["epsilon is 2.0 here and 1.0 there"]
    assert replace(request, delta=1e-6).differences(request) == [
        "delta is 1e-06 here and left out there"
    ]
    words = replace(request, classes=["0", "1"])
    assert words.differences(request) == ['classes is ["0", "1"] here and [0, 1] there']
    turned = replace(request, described=dict(reversed(DESCRIBED.items())))
    assert turned.differences(request) == [
        "order of columns is id, sex, age here and age, sex, id there"
    ]
    narrow = replace(request, described=DESCRIBED | {"age": {"bounds": [0, 90]}})
    assert narrow.differences(request) == [
        "columns.age is bounds = [0, 90] here and bounds = [0, 120] there"
    ]
    # What makes the same release is the same.
    assert replace(request, data_dir="elsewhere", **HARDER).differences(request) == []
    there = request.to_toml()
    monkeypatch.chdir(tmp_path)
    (moved,) = request.differences(Request.from_toml(there))
    assert moved.startswith(f"data is {tmp_path / 'people.csv'} here and ")


@pytest.mark.parametrize(
    ("changed", "stages"),
    [
        ({}, []),
        ({"epsilon": 2.0, "l2": 0.1}, []),
        ({"confidence": 0.95}, ATTACKS),
        ({"audit_runs": 500}, ATTACKS),
        ({"seeds": 30}, GRIDS),
        ({"neighbours": 3}, GRIDS),
        ({"effort": "quick"}, [*GRIDS, *ATTACKS, "release"]),
        ({"effort": "quick", "audit_runs": 400}, [*GRIDS, *ATTACKS, "release"]),
    ],
)
def test_looking_harder_does_some_stages_again(changed: dict, stages: list[str]) -> None:
    request = Request()
    assert replace(request, **changed).stages_to_repeat(request) == stages
    # The effort decides nothing of an attack whose runs are given.
    given = replace(request, audit_runs=400)
    assert replace(given, effort="quick").stages_to_repeat(given) == [*GRIDS, "release"]


def test_settings_are_plain_values() -> None:
    settings = Request(classes=["no", "yes"], described=DESCRIBED).settings()
    assert settings["classes"] == '["no", "yes"]'
    assert settings["columns.sex"] == 'levels = ["f", "m"]'
    assert settings["epsilon"] == 1.0
    assert settings["delta"] is None
    assert all(isinstance(each, str | int | float | bool | None) for each in settings.values())


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "assessment-digits-binary-logistic-epsilon-1"),
        (
            {"epsilon": 0.5, "effort": "quick"},
            "assessment-digits-binary-logistic-epsilon-0.5",
        ),
        ({"data": "../my data/t.csv.gz", "model": "svm"}, "assessment-t-svm-epsilon-1"),
        ({"mechanism": "mine.py:train"}, "assessment-mine.py-train"),
    ],
)
def test_a_study_has_a_place_of_its_own(given: dict, name: str) -> None:
    assert Request(**given).default_directory() == name


FULL = Request(
    data="people.csv",
    target='the "target"',
    classes=["no, never", "yes"],
    data_norm=2.0,
    data_dir="raw",
    model="svm",
    method="rsgd-ar",
    l2=1e-4,
    epsilon=0.5,
    delta=1e-7,
    max_rows_per_person=3,
    effort="thorough",
    seeds=20,
    neighbours=2,
    audit_runs=64,
    confidence=0.95,
    read_from_data=True,
    described={
        "age": {"bounds": [0, 120.5]},
        "über \\ sex.x": {"levels": ["f", "a\x7f\nb"]},
        "id": {"ignore": True},
    },
)


@pytest.mark.parametrize(
    "asked",
    [
        Request(),
        FULL,
        Request(data="t.csv", target="y", columns="c.toml"),
        Request(mechanism="mine.py:train", pair="package.mine:pair", epsilon=3, delta=1e-5),
    ],
)
def test_a_written_study_asks_the_same_from_everywhere(
    asked: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, here = asked.to_toml(), Path.cwd()
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    again = Request.from_file(path)
    assert asked.differences(again) == []
    monkeypatch.chdir(tmp_path)
    assert Request.from_file("study.toml") == again
    assert again.data == (str(here / asked.data) if asked.data.endswith("csv") else asked.data)
    # All but the places of files is equal.
    places = {name: getattr(asked, name) for name in ("data", "data_dir", "columns", "mechanism")}
    assert replace(again, **places) == asked


def test_the_template_asks_what_nothing_asks_and_explains_every_setting() -> None:
    template = Request.template()
    assert Request.from_toml(template) == Request()
    keys = set(re.findall(r"^#?([a-z_0-9]+) = ", template, re.MULTILINE))
    names = {each.name for each in fields(Request)} - {"described"}
    assert names - keys == set()
    assert keys - names == {"bounds", "levels", "ignore"}
    # What can have a value without being said has it, the others are examples.
    assert set(tomllib.loads(template)) == {
        name for name in names if getattr(Request(), name) is not None and name != "read_from_data"
    }


@pytest.mark.parametrize(
    ("data", "examples"),
    [
        ("people.csv", r"target|classes|data_norm|data_dir|delta|seeds|neighbours|audit_runs"),
        ("people.csv", r"columns"),
        ("people.csv", r"read_from_data|bounds|levels|ignore|\[.*"),
        ("digits/binary", r"mechanism|pair"),
    ],
)
def test_the_examples_of_the_template_are_right(data: str, examples: str) -> None:
    text = re.sub(rf"^#({examples})(?= = |$)", r"\1", Request.template(), flags=re.MULTILINE)
    assert text != Request.template()
    request = Request.from_toml(text.replace("digits/binary", data))
    assert request != Request(data=data)
    if "data_norm" in examples:
        assert replace(request, seeds=None, neighbours=None, audit_runs=None) == Request(
            *(data, "ill", ("no", "yes"), 1.0, "raw"), delta=1e-6
        )
        assert (
            request.differences(replace(request, seeds=None, neighbours=None, audit_runs=None))
            == []
        )
    if "bounds" in examples:
        assert list(request.public_columns().columns) == ["age", "sex", "patient"]


@pytest.mark.parametrize(
    ("text", "argument"),
    [
        ("epsilom = 1", "key of the study"),
        ("audit-runs = 100", "key of the study"),
        ("[column.age]\nbounds = [0, 1]", "key of the study"),
        ("described = {}", "key of the study"),
        ("[columns.age]\nbonds = [0, 1]", "key of column age"),
        ("[columns.age]\nbounds = [0, '1']", "bounds of column age"),
        ("[columns.age]\nbounds = 2020-01-01", "bounds of column age"),
        ("[columns]\nage = 3", "column age"),
        ("columns = 3", "columns"),
        ("[columns.age]\nbounds = [0, 1]\nepsilon = 2", "key of column age"),
        ("epsilon = 'one'", "epsilon"),
        ("seeds = 20.5", "seeds"),
        ("model = 1", "model"),
        ("data = ['adult']", "data"),
        ("read_from_data = 'yes'", "read_from_data"),
        ("l2 = 0\nepsilon = ?", "study"),
        ("epsilon = 1\nepsilon = 2", "study"),
    ],
)
def test_what_is_wrong_in_a_study_is_one_sentence(text: str, argument: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Request.from_toml(text)
    assert refused.value.argument == argument
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    for path, why in (
        (
            tmp_path / "none.toml",
            "(No such file or directory). Make one: `sordino assess --write-study`",
        ),
        (tmp_path, "(it is a directory, not a file)"),
        (binary, "(it is not text in UTF-8)"),
    ):
        with pytest.raises(InvalidArgument) as refused:
            Request.from_file(path)
        assert str(refused.value).startswith(f"Expected study={path} to be ")
        assert why in str(refused.value)


def test_files_are_looked_for_beside_the_study(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub" / "table").mkdir(parents=True)
    study = Path("sub/study.toml")

    def read(text: str) -> Request:
        study.write_text(text)
        return Request.from_file(study)

    found = read('data = "t.csv"\ncolumns = "c.toml"\ndata_dir = "raw"\ntarget = "y.z"')
    assert (found.data, found.columns, found.data_dir) == ("sub/t.csv", "sub/c.toml", "sub/raw")
    assert found.target == "y.z"
    assert read('data = "/abs/t.csv"').data == "/abs/t.csv"
    # A dataset's name comes first, a directory that is there is a mistake that is said later.
    assert read('data = "adult"').data == "adult"
    assert read('data = "adlut"').data == "adlut"
    assert read('data = "table"').data == "sub/table"
    mine = read('mechanism = "mine.py:train"\npair = "package.mine:pair"')
    assert (mine.mechanism, mine.pair) == ("sub/mine.py:train", "package.mine:pair")


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ({"advantage": "0.05"}, {"advantage": 0.05}),
        ({"advantage": 5e-5}, {"advantage": 5e-5}),
        ({"detection": "2e-2@0.010"}, {"detection": "0.02@0.01"}),
        ({"reconstruction": "0.05@0.01"}, {"reconstruction": "0.05@0.01"}),
    ],
)
def test_a_risk_instead_of_epsilon_is_kept_and_identifies_the_release(given, plain):
    ((name, value),) = plain.items()
    asked = Request(**given)
    assert asked.epsilon is None
    assert getattr(asked, name) == value
    assert asked.risk.kind == name
    assert Request.from_toml(asked.to_toml()) == asked
    assert asked.default_directory().startswith(f"assessment-digits-binary-logistic-{name}-")
    # The same by another spelling; another risk, or epsilon, is another release.
    assert Request(**plain).differences(asked) == []
    assert asked.differences(Request(advantage=0.06))
    assert asked.differences(Request())
    # What is typed takes the place of what a file says.
    assert asked.with_options(epsilon=2.0) == Request(epsilon=2.0)
    assert Request(epsilon=2.0).with_options(**given) == asked
    assert asked.with_options(effort="quick").risk == asked.risk


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        ({"epsilon": 1.0, "advantage": 0.05}, "advantage"),
        ({"advantage": 0.05, "detection": "0.02@0.01"}, "detection"),
        ({"advantage": 0}, "advantage"),
        ({"advantage": 1}, "advantage"),
        ({"advantage": True}, "advantage"),
        ({"advantage": "a lot"}, "advantage"),
        ({"detection": 0.02}, "detection"),
        ({"detection": "0.01@0.02"}, "detection"),
        ({"reconstruction": "0.1@0"}, "reconstruction"),
        ({"advantage": 0.05, "mechanism": "gallery:fixed-seed"}, "advantage"),
    ],
)
def test_a_risk_that_says_nothing_or_too_much_is_refused(settings, argument):
    with pytest.raises(InvalidArgument) as refused:
        Request(**settings)
    assert refused.value.argument == argument
