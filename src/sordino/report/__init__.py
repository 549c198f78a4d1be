"""What an assessment found, as values, documents, words, figures and pages.

`result` holds the values and their JSON, `words` the sentences, `page` the page engine, `sections`
the page of an assessment, `public` the one that may leave, `drawing` the pictures on them, and
`figures` what commands draw into files.
"""
