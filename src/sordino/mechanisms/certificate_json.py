"""The parts of a certificate as plain values for JSON, and back: to the letter, or refused."""

from __future__ import annotations

from typing import Any

from sordino import _check
from sordino.mechanisms import certificate_words as words
from sordino.mechanisms.certificate_parts import DatasetFacts, Label, Model, Preprocessing, Tuning
from sordino.mechanisms.strict_json import CertificateError, Fields, refuse
from sordino.privacy import RELATIONS, Guarantee, Relation
from sordino.proofs.evidence import Evidence, from_plain

_MODEL = (
    *("estimator", "settings", "labels", "label_type"),
    *("features", "feature_names", "intercept", "sha256"),
)
_GUARANTEE = (
    *("epsilon", "delta", "delta_means", "relation", "relation_means", "sampling"),
    *("unit", "theorem", "assumes", "released", "not_covered"),
)
_PREPROCESSING = ("declared", "reads", "columns")
_TUNING = ("kind", "candidates", "runs")
_DATASET = ("name", "fingerprint")


def to_plain(part: Model | Preprocessing | Tuning | DatasetFacts) -> dict[str, Any]:
    """A part that holds plain values already."""
    return dict(vars(part))


def model_from_plain(values: object) -> Model:
    """The model."""
    model = Fields(values, "model", _MODEL)
    named = model.any("feature_names") is not None
    return Model(
        estimator=model.text("estimator"),
        settings=model.object("settings"),
        labels=_labels_from_plain(model.items("labels")),
        label_type=model.text("label_type"),
        features=model.whole("features"),
        feature_names=model.texts("feature_names") if named else None,
        intercept=model.flag("intercept"),
        sha256=model.text("sha256"),
    )


def _labels_from_plain(labels: tuple[Any, ...]) -> tuple[Label, ...]:
    if not all(isinstance(label, Label) for label in labels):
        refuse("has a label that is neither a number nor a text")
    return labels


def guarantee_to_plain(guarantee: Guarantee) -> dict[str, Any]:
    """The guarantee, with a sentence each on what its relation and its delta mean."""
    values = {name: getattr(guarantee, name) for name in _GUARANTEE if "_means" not in name}
    return {
        **values,
        "relation": guarantee.relation.value,
        "relation_means": RELATIONS[guarantee.relation],
        "delta_means": words.delta_means(guarantee.delta),
    }


def guarantee_from_plain(values: object) -> Guarantee:
    """The guarantee; sentences that do not fit its values are refused."""
    given = Fields(values, "guarantee", _GUARANTEE)
    relation = _check.one_of("relation", given.text("relation"), [each.value for each in Relation])
    released = _check.one_of("released", given.text("released"), ("final", "all"))
    found = Guarantee(
        epsilon=given.number("epsilon"),
        delta=given.number("delta"),
        relation=Relation(relation),
        sampling=given.text("sampling"),
        unit=given.text("unit"),
        theorem=given.text("theorem"),
        assumes=given.texts("assumes"),
        released="all" if released == "all" else "final",
        not_covered=given.texts("not_covered"),
    )
    # These sentences belong to the schema: another wording is another version of it.
    for name, subject in (("relation_means", "relation"), ("delta_means", "delta")):
        if given.text(name) != guarantee_to_plain(found)[name]:
            refuse(f"explains its {subject} as something else than it is")
    return found


def evidence_from_plain(values: object) -> Evidence:
    """The numbers behind the proof."""
    try:
        return from_plain(values)
    except _check.InvalidArgument:
        raise
    except Exception as error:  # numbers nobody thought of are still somebody else's
        raise CertificateError(f"The certificate's evidence cannot be read: {error}.") from error


def preprocessing_from_plain(values: object) -> Preprocessing:
    """What preparing the rows read."""
    given = Fields(values, "preprocessing", _PREPROCESSING)
    return Preprocessing(given.flag("declared"), given.texts("reads"), given.text("columns"))


def tuning_from_plain(values: object) -> Tuning:
    """How the settings were chosen."""
    given = Fields(values, "tuning", _TUNING)
    return Tuning(given.text("kind"), given.whole("candidates"), given.text("runs"))


def dataset_from_plain(values: object) -> DatasetFacts:
    """Which records they were."""
    given = Fields(values, "dataset", _DATASET)
    return DatasetFacts(given.text_or_none("name"), given.text_or_none("fingerprint"))
