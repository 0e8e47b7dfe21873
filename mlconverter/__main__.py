"""``python -m mlconverter`` is the command line."""

from mlconverter.cli import main

if __name__ == "__main__":
    main()
