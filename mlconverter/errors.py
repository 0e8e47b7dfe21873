"""One tree of errors: what went wrong, where, why, and what to do next.

Messages are for people. Whatever a program may want to act on is an attribute of the exception; nothing
in this package decides on the text of a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlconverter.verification.result import VerificationResult


class MLConverterError(Exception):
    """Root of every error that this package raises on purpose."""


class FormatError(MLConverterError):
    """A model or a file is not what it was taken for."""


class UnknownFormatError(FormatError):
    """No registered format owns this model, file or format name.

    Attributes:
        known: the names of the formats that are registered.
    """

    def __init__(self, message: str, *, known: Sequence[str] = ()) -> None:
        self.known = tuple(known)
        super().__init__(f"{message} Known formats: {', '.join(self.known)}." if self.known else message)


class CorruptModelError(FormatError):
    """The file has the mark of its format and cannot be read as such."""


class NotConvertibleError(FormatError):
    """The format is known and this direction does not exist for it."""


class UnsafeModelError(FormatError):
    """Loading the file would run code that it carries; pass ``trust=True`` if you know where it comes from."""


class MissingDependencyError(FormatError):
    """An optional package is needed and not installed.

    Attributes:
        package: the import name of the missing package.
        extra: the extra of ``mlconverter`` that installs it.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"{purpose} needs '{package}', which is not installed. Install it with: pip install 'mlconverter[{extra}]'"
        )


class SignatureError(MLConverterError):
    """What was asked for (inputs, shapes, dtypes, layouts, options) does not fit the model or its conversion."""


class ConversionError(MLConverterError):
    """A model could not be converted."""


@dataclass(frozen=True)
class UnsupportedOp:
    """One operator that cannot be translated.

    Attributes:
        op: operator type, with its domain where it is not the default one.
        version: the operator's version in the model.
        count: how many nodes of the model use it.
        node: name of the first such node.
        reason: why it is refused.
    """

    op: str
    version: int
    count: int
    node: str
    reason: str


class UnsupportedOpsError(ConversionError):
    """Operators that this route cannot translate: all of them, found before anything was translated.

    Attributes:
        route: for example ``"tflite-onnx"``.
        ops: one :class:`UnsupportedOp` for each operator and reason.
    """

    def __init__(self, route: str, ops: Sequence[UnsupportedOp]) -> None:
        self.route, self.ops = route, tuple(ops)
        lines = [f"  {o.op} (version {o.version}), {o.count}x, first at '{o.node}': {o.reason}" for o in self.ops]
        listing = f"'mlconverter ops --route {route}' lists what is supported."
        super().__init__(f"{len(self.ops)} operators cannot be converted ({route}):\n" + "\n".join([*lines, listing]))


class TranslationError(ConversionError):
    """One node could not be translated.

    Attributes:
        node: name of the node.
        op: its operator type.
    """

    def __init__(self, node: str, op: str, reason: str) -> None:
        self.node, self.op = node, op
        super().__init__(f"{op} node '{node}': {reason}")


class NotRunnableError(ConversionError):
    """Nothing here can run a model that is not known to be wrong: its runtime has no kernel, no device or no room for it."""


class VerificationError(MLConverterError):
    """A converted model does not compute what its source computes.

    Attributes:
        result: the comparison, output by output.
    """

    def __init__(self, message: str, result: VerificationResult) -> None:
        self.result = result
        super().__init__(message)


class TrainingError(MLConverterError):
    """A model, its data and a task of training do not fit together; the message says what was expected."""


class SaveError(MLConverterError):
    """A file could not be written; nothing was left behind."""
