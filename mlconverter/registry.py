"""The only module state there is: which formats exist, and which operators each route translates."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from mlconverter.errors import SaveError, UnknownFormatError

Function = TypeVar("Function", bound=Callable[..., Any])
Check = Callable[[Any], str | None]
"""A capability check: the reason why a node is refused, or ``None``."""


class FormatRegistry:
    """Formats by name. Classes register themselves; the first look-up imports the folders that hold them.

    Args:
        package: the package whose sub-packages are formats, each with a module ``converter``.
        group: the entry-point group by which other distributions add theirs.
    """

    def __init__(self, package: str, group: str) -> None:
        self._package, self._group = package, group
        self._classes: dict[str, type[Any]] = {}
        self._discovered = False

    def register(self, name: str, cls: type[Any]) -> None:
        """Add a format.

        Raises:
            ValueError: another class has the name already.
        """
        known = self._classes.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise ValueError(
                f"Format '{name}' is registered by {known.__qualname__} already; {cls.__qualname__} needs another name."
            )
        self._classes[name] = cls

    def unregister(self, name: str) -> None:
        """Take a format out again (tests do)."""
        self._classes.pop(name, None)

    def discover(self) -> None:
        """Import the converter of every format folder, and every entry point, once."""
        if self._discovered:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__, f"{self._package}."):
            importlib.import_module(f"{module.name}.converter")
        for entry in entry_points(group=self._group):
            entry.load()
        self._discovered = True  # last: a format that fails to import fails at every look-up, not only at the first

    def __getitem__(self, name: str) -> type[Any]:
        self.discover()
        try:
            return self._classes[name]
        except KeyError:
            raise UnknownFormatError(f"There is no format '{name}'.", known=self.names()) from None

    def __contains__(self, name: object) -> bool:
        self.discover()
        return name in self._classes

    def __iter__(self) -> Iterator[type[Any]]:
        self.discover()
        return iter(tuple(self._classes.values()))

    def of_extension(self, path: Path) -> str:
        """Name of the format that owns a file's extension.

        Raises:
            SaveError: none does.
        """
        for cls in self:
            if path.suffix.lower() in cls.extensions:
                return str(cls.format)
        known = ", ".join(f"{extension} ({cls.format})" for cls in self for extension in cls.extensions)
        raise SaveError(
            f"No format has the extension '{path.suffix}' of '{path}', and no format was named. Known extensions: {known}."
        )

    def names(self) -> tuple[str, ...]:
        """Names of all formats, sorted."""
        self.discover()
        return tuple(sorted(self._classes))


formats = FormatRegistry("mlconverter.formats", "mlconverter.formats")


@dataclass(frozen=True)
class Translator:
    """How one operator is translated.

    Attributes:
        op: operator type, prefixed with ``domain::`` outside the default domain.
        versions: the operator's schema versions that somebody has reviewed.
        function: the translator itself.
        check: a capability check, or ``None`` where every node of these versions is taken.
    """

    op: str
    versions: frozenset[int]
    function: Callable[..., Any]
    check: Check | None = None

    @property
    def summary(self) -> str:
        """The first line of the translator's docstring: its mapping."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]

    @property
    def mapping(self) -> str:
        """What the operator becomes: the summary behind its arrow."""
        return (self.summary.partition(" → ")[2] or self.summary).rstrip(".")


class OpRegistry:
    """The operators of one route.

    A translator names each schema version that it was reviewed for, so that a version which a newer
    specification brings is refused until somebody has looked at it.

    Args:
        route: for example ``"onnx-torch"``.
    """

    def __init__(self, route: str) -> None:
        self.route = route
        self._by_version: dict[tuple[str, int], Translator] = {}

    def __call__(self, op: str, *versions: int, check: Check | None = None) -> Callable[[Function], Function]:
        """Register the decorated function as the translator of ``op`` at ``versions``."""

        def register(function: Function) -> Function:
            translator = Translator(op, frozenset(versions), function, check)
            for version in versions:
                known = self._by_version.setdefault((op, version), translator)
                if known is not translator:
                    raise ValueError(f"{self.route}: {op}-{version} is translated by {known.function.__name__} already.")
            return function

        return register

    def find(self, op: str, version: int) -> Translator | None:
        """The translator of an operator's schema version."""
        return self._by_version.get((op, version))

    def versions(self, op: str) -> tuple[int, ...]:
        """The versions at which an operator is translated, sorted."""
        return tuple(sorted(v for o, v in self._by_version if o == op))

    def ops(self) -> tuple[str, ...]:
        """All operators, sorted."""
        return tuple(sorted({o for o, _ in self._by_version}))

    def refusal(self, op: str, version: int) -> str | None:
        """Why an operator's version has no translator, or ``None`` where it has one."""
        if self.find(op, version) is not None:
            return None
        known = self.versions(op)
        if not known:
            return "no translator"
        return f"version {version} is not reviewed; reviewed: {', '.join(map(str, known))}"
