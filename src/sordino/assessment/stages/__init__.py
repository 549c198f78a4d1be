"""The stages of an assessment: prove, measure, attack, release; accuracy is what privacy costs."""
