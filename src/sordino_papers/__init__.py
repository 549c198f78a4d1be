"""The papers as data: what they print, the setting it was printed for, and whether we find it."""
