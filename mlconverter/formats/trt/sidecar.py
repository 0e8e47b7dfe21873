"""What stands beside an engine: how it was built and what it takes, as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mlconverter.cache import content_hash
from mlconverter.errors import CorruptModelError
from mlconverter.formats.trt.profiles import Profile
from mlconverter.options import ConvertOptions
from mlconverter.signature import IOSignature

MADE_HERE = "mlconverter.engine"
"""What the JSON says it is."""


@dataclass(frozen=True)
class EngineInfo:
    """How an engine was built.

    Attributes:
        signature: what it takes and gives.
        source_signature: what the model took and gave that it was built from, before a batch was freed.
        runtime: package that built it and that loads it.
        runtime_name: title and version of that.
        precision: in which it computes.
        compute_capabilities: of the GPUs that it is for.
        profile: smallest, usual and largest shape of the inputs with free dimensions.
        source_hash: SHA-256 of the ONNX model that it was built from.
        source_file: whether that model is kept beside it.
        options: those of the build, which can be repeated with them.
        versions: of the packages that took part.
        layers: operators that TensorRT was given.
        seconds: that building took.
    """

    signature: IOSignature
    source_signature: IOSignature
    runtime: str
    runtime_name: str
    precision: str = "fp32"
    compute_capabilities: tuple[str, ...] = ()
    profile: Profile = field(default_factory=dict)
    source_hash: str = ""
    source_file: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    layers: int = 0
    seconds: float = 0.0


def path_of(engine: Path) -> Path:
    """Where the JSON of an engine's file is."""
    return engine.with_name(f"{engine.name}.json")


def source_path_of(engine: Path) -> Path:
    """Where the graph is that an engine's file was built from."""
    return engine.with_name(f"{engine.name}.onnx")


def written(info: EngineInfo, content: bytes, values: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """The JSON of an engine.

    Args:
        info: of the engine.
        content: the engine, which is known by its digest.
        values: of the person's own, by name.
        files: of the person's own, by name.

    Raises:
        TypeError: a value is nothing that JSON knows.
    """
    said = {
        "made": MADE_HERE,
        **asdict(info),
        "engine_sha256": content_hash(content),
        "metadata": dict(values),
        "extra_files": {name: base64.b64encode(data).decode() for name, data in files.items()},
    }
    return json.dumps(said, indent=2)


def attached(text: bytes, path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The values and files of the person's own in the JSON of an engine; nothing else is looked at.

    Raises:
        CorruptModelError: it is no such JSON.
    """
    try:
        said = json.loads(text)
        return dict(said["metadata"]), {name: base64.b64decode(data) for name, data in said["extra_files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptModelError(f"What stands beside '{path}' cannot be read: {error!r}. Build the engine anew.") from error


def read(text: str | bytes, content: bytes, path: Path) -> tuple[EngineInfo, dict[str, Any], dict[str, bytes]]:
    """What the JSON of an engine says: how it was built, and the values and files of the person's own.

    Args:
        text: the JSON.
        content: the engine.
        path: the engine's file, for errors.

    Raises:
        CorruptModelError: it is no such JSON, or that of another engine.
    """
    try:
        said = json.loads(text)
        entries = {f.name: said[f.name] for f in fields(EngineInfo)}
        entries |= {name: IOSignature.from_dict(said[name]) for name in ("signature", "source_signature")}
        entries["compute_capabilities"] = tuple(said["compute_capabilities"])
        options = ConvertOptions().having(**said["options"])
        entries["options"] = {name: getattr(options, name) for name in said["options"]}
        entries["profile"] = {name: tuple(map(tuple, shapes)) for name, shapes in said["profile"].items()}
        files = {name: base64.b64decode(data) for name, data in said["extra_files"].items()}
        of_this = said["made"] == MADE_HERE and said["engine_sha256"] == content_hash(content)
        info, values = EngineInfo(**entries), dict(said["metadata"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptModelError(f"What stands beside '{path}' cannot be read: {error!r}. Build the engine anew.") from error
    if not of_this:
        raise CorruptModelError(f"What stands beside '{path}' is about another engine. Put its own files back, or build it anew.")
    return info, values, files
