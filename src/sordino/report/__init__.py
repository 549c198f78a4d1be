"""Tables, figures and pages for people to read."""
