"""The main job: prove, measure, attack and release one model, and report on it.

`run.assess` does it (`sordino.assess`), `request.Request` is what is asked.
"""
