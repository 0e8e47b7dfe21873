"""The command line: it parses, calls the library, and prints. Importing it loads no framework."""

from mlconverter.cli.app import app, main

__all__ = ["app", "main"]
