"""`asked`: what is passed to `assess` in Python, as a `Request` and the records in memory.

A study file can name a file or a dataset, not an array or a table in memory. Of these the request
says only that they are (`IN_MEMORY`), and whoever goes on passes them again.

An estimator's parameters become settings. The assessment trains, attacks and releases a model that
it makes of these settings, so a parameter that it has no setting for is refused, by name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sordino import checks
from sordino.assessment.request import Request
from sordino.data.columns import Column, Columns
from sordino.data.given import Given, is_table
from sordino.data.source import IN_MEMORY
from sordino.estimators import PrivateLinearSVC, PrivateLogisticRegression

_MODELS: dict[type, str] = {PrivateLogisticRegression: "logistic", PrivateLinearSVC: "svm"}
_SAME = ("epsilon", "delta", "method", "l2", "data_norm", "classes", "max_rows_per_person")
"""Parameters that are settings of the same name."""
_RELATION = "replace-one"
_LEAVE_OUT = "An assessment has no setting for it, and would be of another model."


def asked(
    first: object, X: Any, y: Any, settings: Mapping[str, Any]
) -> tuple[Request, Given | None]:
    """The request, and records in memory if there are some.

    Parameters
    ----------
    first
        A `Request`, an estimator that is not fitted, records, or None.
    X, y
        Records behind it: rows and labels, a table alone, or a name of data.
    settings
        Of a request, by name; `data` may be records, and `columns` a description.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    request = first if isinstance(first, Request) else Request()
    data = given.pop("data", None)
    if hasattr(first, "get_params"):
        of_model = _settings(first)
        for name in of_model:
            if name in given:
                checks.fail(name, given[name], "to be left out beside an estimator, which has it")
        given |= of_model
    elif isinstance(first, str | os.PathLike) and data is None:
        data = first
    elif first is not None and not isinstance(first, Request):
        if y is not None:
            checks.fail("request", f"[{type(first).__name__}]", "to be an estimator or a Request")
        if X is None and isinstance(first, tuple) and len(first) == 2:
            X, y = first
        else:
            X, y = first, X
    given = _described(given)
    if isinstance(X, str | os.PathLike) and data is None and y is None:
        data, X = X, None
    if data is not None:
        if X is not None:
            checks.fail("data", f"[{type(data).__name__}]", "to be left out beside X")
        if isinstance(data, str | os.PathLike):
            return request.with_options(data=data, **given), None
        X, y = data if isinstance(data, tuple) and len(data) == 2 else (data, y)
    if X is None:
        if y is not None:
            checks.fail_missing("X", "beside y", "Pass rows and labels.")
        return request.with_options(**given), None
    return _in_memory(request.with_options(data=IN_MEMORY, **given), X, y)


def _in_memory(request: Request, X: Any, y: Any) -> tuple[Request, Given]:
    """Rows and labels, or a table that has both: one with a description, or without labels."""
    described = bool(request.described or request.read_from_data or request.columns)
    if is_table(X) and (y is None or described):
        known = request.columns and Columns.from_file(request.columns).target
        target = request.target or known
        if y is not None and target is None:
            target = "target"
            request = request.with_options(target=target)
        return request, Given.of_table(X, y, target)
    if y is None:
        checks.fail_missing("y", "with rows of numbers", "Pass labels, or a table and its target.")
    if described:
        hint = "Pass a table, to have it prepared by them."
        checks.fail("columns", "[given]", "to be left out with rows of numbers", hint)
    return request, Given.of_rows(X, y)


def _described(given: dict[str, Any]) -> dict[str, Any]:
    """The settings with a description in Python as tables of a study."""
    columns = given.get("columns")
    if columns is None or isinstance(columns, str | os.PathLike):
        return given
    rest = {name: value for name, value in given.items() if name != "columns"}
    if isinstance(columns, Mapping):
        return {"described": columns, **rest}
    if not isinstance(columns, Columns):
        checks.fail("columns", f"[{type(columns).__name__}]", "to be a file, tables or Columns")
    of_file = {"target": columns.target, "classes": columns.classes, "person": columns.person}
    for name, value in of_file.items():
        if value is not None and list(rest.get(name, value)) != list(value):
            checks.fail(name, "[given]", "to be what the description says, or left out")
    tables = {name: _table(column) for name, column in columns.columns.items()}
    made = {"described": tables, "read_from_data": columns.read_from_data, **of_file, **rest}
    return {name: value for name, value in made.items() if value is not None}


def _table(column: Column) -> dict[str, Any]:
    """A column as a study file has it."""
    if column.bounds is not None:
        return {"bounds": list(column.bounds)}
    if column.levels is not None:
        return {"levels": list(column.levels)}
    return {"ignore": True}


def _settings(estimator: Any) -> dict[str, Any]:
    """The settings that an estimator's parameters are; the others must be as by default."""
    kind = type(estimator)
    if kind not in _MODELS:
        names = " or ".join(each.__name__ for each in _MODELS)
        hint = "Any other one can be attacked: mechanism=."
        checks.fail("estimator", kind.__name__, f"to be a {names}", hint)
    if hasattr(estimator, "coef_"):
        hint = "What was fitted is a release of its own: pass sklearn.base.clone(model)."
        checks.fail("estimator", kind.__name__, "not to be fitted", hint)
    usual = kind().get_params()
    parameters = estimator.get_params()
    found: dict[str, Any] = {"model": _MODELS[kind]}
    for name, value in parameters.items():
        if name in (*_SAME, "target", "relation"):
            continue
        if value is not usual[name] and not _equal(value, usual[name]):
            checks.fail(name, f"[{type(value).__name__}]", "to be left out", _LEAVE_OUT)
    relation = str(getattr(parameters["relation"], "value", parameters["relation"]))
    if relation.lower().replace("_", "-") != _RELATION:
        hint = "An assessment exchanges one record for another; release and audit take others."
        checks.fail("relation", relation, f"to be {_RELATION}", hint)
    if parameters["data_norm"] is None:
        checks.fail("data_norm", None, "to be a public bound", "Pass one that you know.")
    if isinstance(parameters["data_norm"], str):  # "auto": what a request without one takes
        del parameters["data_norm"]
    found |= {name: parameters[name] for name in _SAME if parameters.get(name) is not None}
    if parameters["target"] is not None:
        from sordino.accounting.risk import RiskTarget

        if parameters["epsilon"] != usual["epsilon"]:
            hint = "Epsilon follows from the target."
            checks.fail("target", parameters["target"], "not to be given beside epsilon", hint)
        del found["epsilon"]
        risk = RiskTarget.parse(parameters["target"])
        found[risk.kind] = risk.most if risk.kind == "advantage" else str(risk).partition("<=")[2]
    return found


def _equal(value: object, usual: object) -> bool:
    """Whether a plain value is the usual one; whatever else is given is another."""
    plain = (bool, int, float, str)
    return isinstance(value, plain) and isinstance(usual, plain) and value == usual
