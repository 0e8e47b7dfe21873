"""One folder a format; they are found by listing this one and never import each other."""
