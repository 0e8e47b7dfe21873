"""What the package promises by name is there and says what it is."""

import inspect

import mlconverter


def test_names_are_listed_once():
    assert len(mlconverter.__all__) == len(set(mlconverter.__all__)) > 0


def _has_own_docstring(value):
    # A class or an object without one shows that of its parent or its type.
    inherited = [getattr(c, "__doc__", None) for c in (value.__mro__[1:] if inspect.isclass(value) else [type(value)])]
    return bool((value.__doc__ or "").strip()) and value.__doc__ not in inherited


def test_every_public_name_resolves_and_is_documented():
    wrong = []
    for name in mlconverter.__all__:
        value = getattr(mlconverter, name, None)
        if value is None:
            wrong.append(f"{name}: does not resolve")
        elif (callable(value) or inspect.ismodule(value)) and not _has_own_docstring(value):
            wrong.append(f"{name}: has no docstring of its own")
    assert not wrong, "\n".join(wrong)


def test_every_public_name_is_shown_by_dir():
    assert set(mlconverter.__all__) <= set(dir(mlconverter))
