"""What a model promises to whoever runs it, and the folder that lets trained weights find back on another day.

The folder holds the promise and the map of the weights as JSON, and the origin's file, or where it is and its digest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlconverter.cache import content_hash
from mlconverter.errors import CorruptModelError
from mlconverter.signature import IOSignature

MADE_HERE = "mlconverter.contract"
"""What the JSON says it is."""

ENTRY = "contract.json"
"""The JSON's name in the folder."""


@dataclass(frozen=True)
class Contract:
    """What a model promises beside what it computes.

    Attributes:
        format: of the model.
        signature: names, order, shapes, dtypes, layouts and quantisation of its inputs and outputs.
        features: what else its format has: operator sets, metadata, how weights are stored. In types that JSON has.
    """

    format: str
    signature: IOSignature
    features: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The contract in types that JSON has."""
        said = {"format": self.format, "signature": self.signature.as_dict(), "features": dict(self.features)}
        plain: dict[str, Any] = json.loads(json.dumps(said, sort_keys=True))
        return plain

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Contract:
        """What :meth:`as_dict` gave."""
        return cls(said["format"], IOSignature.from_dict(said["signature"]), said["features"])

    def differences(self, other: Contract) -> tuple[str, ...]:
        """What another contract says differently, entry by entry."""
        return tuple(_differences(self.as_dict(), other.as_dict(), ""))


def _differences(old: Any, new: Any, place: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _differences(old.get(name), new.get(name), f"{place}.{name}" if place else str(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (a, b) in enumerate(zip(old, new, strict=True)):
            yield from _differences(a, b, f"{place}[{position}]")
    elif old != new:
        yield f"{place}: {old!r} became {new!r}"


@dataclass(frozen=True)
class StoredContract:
    """A contract's folder.

    Attributes:
        contract: the promise.
        origin: the origin's file.
        sha256: of that file.
        settings: how the origin is to be read and converted, by name.
        weights: by parameter or buffer of the torch module: the tensors of the origin that it comes from, and by which steps.
    """

    contract: Contract
    origin: Path
    sha256: str
    settings: Mapping[str, Any]
    weights: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Write the JSON into a folder; an origin that lies in it is spoken of by its name alone."""
        beside = self.origin.parent == folder
        said = {
            "made": MADE_HERE,
            "contract": self.contract.as_dict(),
            "origin": {"file": self.origin.name if beside else os.path.abspath(self.origin), "sha256": self.sha256},
            "settings": dict(self.settings),
            "weights": dict(self.weights),
        }
        (folder / ENTRY).write_text(json.dumps(said, indent=2, sort_keys=True), "utf-8")

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> StoredContract:
        """Read a folder.

        Raises:
            FileNotFoundError: there is no such folder, no contract in it, or no origin where it says.
            CorruptModelError: what is there is no contract, or its origin is another file.
        """
        place = Path(folder)
        entry = place / ENTRY
        if not entry.is_file():
            raise FileNotFoundError(f"There is no contract in '{place}': '{ENTRY}' is missing.")
        try:
            said = json.loads(entry.read_text("utf-8"))
            if said["made"] != MADE_HERE:
                raise ValueError("another program's")
            file, sha256 = said["origin"]["file"], said["origin"]["sha256"]
            contract = Contract.from_dict(said["contract"])
            found = cls(contract, place / file, sha256, dict(said["settings"]), dict(said["weights"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptModelError(f"'{entry}' is no readable contract: {error!r}. Save it anew from the origin.") from error
        if not found.origin.is_file():
            raise FileNotFoundError(f"The origin of the contract in '{place}' is not at '{found.origin}'. Put it there.")
        if content_hash(found.origin) != sha256:
            raise CorruptModelError(
                f"'{found.origin}' is not the origin of the contract in '{place}': its content is another one, or has changed."
            )
        return found
