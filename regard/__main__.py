"""`python -m regard` is the command line."""

from regard.cli.app import main

if __name__ == "__main__":
    main()
