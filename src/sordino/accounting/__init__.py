"""What can be proved of a run: plain numbers in, a `Profile` out. See docs/accounting.md."""
