"""`python -m sordino`: the same program as `sordino`."""

from sordino.cli.main import main

if __name__ == "__main__":
    main()
