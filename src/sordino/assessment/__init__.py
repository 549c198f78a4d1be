"""The main job: prove, measure, attack and release one model, and report on it.

`run.assess` does it (`sordino.assess`), `brief.Brief` is what is asked, `source.Source` where the
records come from. Light to import: the command line reads its options here.
"""
