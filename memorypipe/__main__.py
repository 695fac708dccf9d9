"""`python -m memorypipe`: the command line."""

from memorypipe.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
