"""The way back: trained weights into the origin's own file, or a changed model converted anew under the origin's contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mlconverter.conversion import TrainedWeights
from mlconverter.errors import NotConvertibleError
from mlconverter.hub.border import BorderChange, border_change
from mlconverter.hub.model import BATCH, HubModel
from mlconverter.hub.weights import write_back
from mlconverter.registry import formats
from mlconverter.signature import IOSignature, TensorSpec
from mlconverter.verification import Permuted, Runner, VerificationResult, compared

if TYPE_CHECKING:
    from mlconverter.base import BaseConverter


@dataclass(frozen=True)
class Returned:
    """What came back.

    Attributes:
        model: in the origin's format.
        way: which way was taken, and why.
        verification: how it compares with the trained module.
        notes: for the report.
    """

    model: Any
    way: str
    verification: VerificationResult
    notes: tuple[str, ...] = ()


def way_back(origin: BaseConverter, trained: TrainedWeights) -> Returned:
    """A trained model in the format, and under the contract, of its origin.

    Raises:
        NotConvertibleError: the model no longer computes the origin's graph, and none can be made of it in the origin's format.
    """
    return _converted_anew(origin, trained) if trained.changed else _written_back(origin, trained)


def _written_back(origin: BaseConverter, trained: TrainedWeights) -> Returned:
    """The origin itself with the trained values in its own storage."""
    stored = origin._stored_weights(sorted({link.source for link in trained.links}))
    changed = write_back(stored, trained.links, trained.values)
    model = origin._with_weights(changed) if changed else origin._copy_of_source()
    # Half-precision or integer storage rounds. The file has to compute what the rounded weights compute, to the
    # last digit; how far rounding moves the outputs is the origin's choice of storage, and reported.
    kept = {link.target: link.get(changed.get(link.source, stored[link.source])) for link in trained.links}
    signature = origin._contract(trained.options)
    change = border_change(signature, trained.options.io_layout)
    sizes = _fixed_batch(signature) if BATCH in trained.signature.free_dims else None
    source = _behind(change, partial(trained.runner, kept))
    verification = _verified(origin, source, partial(origin._runs, model, trained.options), sizes=sizes)
    return Returned(model, "trained weights written back into the origin", verification, trained.rounding(kept))


def _converted_anew(origin: BaseConverter, trained: TrainedWeights) -> Returned:
    """A new model of the origin's format: the trained graph behind the origin's border."""
    from mlconverter.hub.dims import rename_dims
    from mlconverter.hub.relayout import change_border

    wanted = origin._contract(trained.options).without_states
    change = border_change(wanted, trained.options.io_layout)
    seen = change.of(wanted)
    if len(seen.inputs) != len(trained.signature.inputs):
        raise NotConvertibleError(
            f"The trained module takes {len(trained.signature.inputs)} inputs and the origin {len(seen.inputs)}, so it does not "
            f"fit the origin's contract ({'; '.join(map(str, wanted.inputs))})."
        )
    identifiers = {dim: f"dim{number}" for number, dim in enumerate(seen.free_dims)}  # the exporter takes no other names
    own = origin._own_options()
    exporter = formats["torch"](
        trained.model,
        input_shape=[_with_dims(spec, identifiers) for spec in seen.inputs],
        input_names=wanted.input_names,
        dynamic_batch=False,  # which dimensions are free is the origin's to say
        **{name: value for name, value in own.items() if name in formats["torch"].source_options},
    )
    options = exporter.options
    if len(exporter._signature(options).outputs) == len(wanted.outputs):
        options = options.having(output_names=wanted.output_names)
    now = exporter._signature(options)
    ranks = {spec.name: len(spec.shape or ()) for spec in now.outputs}
    kept = {name: perm for name, perm in change.outputs.items() if ranks.get(name) == len(perm)}
    change = BorderChange(change.inputs, kept)
    hub = exporter.hub(options)
    hub = rename_dims(hub, _unnamed(seen, hub.signature.without_states) | {new: old for old, new in identifiers.items()})
    hub = _described_as(_laid_out_as(change_border(hub, change.inverse), wanted), origin.hub(trained.options))
    chosen = {name: value for name, value in own.items() if name in origin.target_options}
    asked = origin.options.having(dynamic_batch=False, **chosen)
    made = type(origin)._from_hub(hub, asked, trained.source_hash)
    source = _behind(change, partial(exporter._runner, trained.model, now))
    target = partial(origin._runner, made.model, made.signature)
    verification = _verified(origin, source, target, rounded=asked.rounded)
    said = type(origin)(made.model).contract.features if type(origin).extensions else {}
    other = replace(origin.contract, features=said)
    lost = (d for d in origin.contract.differences(other))
    notes = (*_differences(wanted, made.signature.without_states), *lost, *made.notes)
    return Returned(made.model, f"converted anew: {trained.changed}", verification, notes)


def _behind(change: BorderChange, runner: Callable[[], Runner]) -> Callable[[], Runner]:
    """A runner of the trained module, seen through the origin's border."""
    return (lambda: Permuted(runner(), change.inputs, change.outputs)) if change else runner


def _with_dims(spec: TensorSpec, names: Mapping[str, str]) -> TensorSpec:
    shape = None if spec.shape is None else tuple(names[d] if isinstance(d, str) else d for d in spec.shape)
    return replace(spec, shape=shape)


def _unnamed(wanted: IOSignature, got: IOSignature) -> dict[str, str | int | None]:
    """Names that an export has made up for dimensions which have none in the origin."""
    shapes = ((a.shape or (), b.shape or ()) for a, b in zip(wanted.inputs, got.inputs, strict=True))
    pairs = (pair for old, new in shapes for pair in zip(old, new, strict=False))
    return {new: None for old, new in pairs if old is None and isinstance(new, str)}


def _laid_out_as(hub: HubModel, wanted: IOSignature) -> HubModel:
    """The model with the layouts that the origin states; an export states a convention only."""
    layouts = {spec.name: spec.layout for spec in (*wanted.inputs, *wanted.outputs)}

    def stated(specs: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        return tuple(replace(s, layout=layouts.get(s.name) if s.shape is not None and len(s.shape) > 2 else None) for s in specs)

    return replace(
        hub, signature=replace(hub.signature, inputs=stated(hub.signature.inputs), outputs=stated(hub.signature.outputs))
    )


def _described_as(hub: HubModel, origin: HubModel) -> HubModel:
    """The model with what the origin says of itself; an export says nothing."""
    model = hub.model.clone()
    model.metadata_props.update(origin.model.metadata_props)
    model.doc_string, model.domain, model.model_version = (
        origin.model.doc_string,
        origin.model.domain,
        origin.model.model_version,
    )
    return replace(hub, model=model)


def _differences(wanted: IOSignature, got: IOSignature) -> tuple[str, ...]:
    """What a new model has at its border that the origin has not."""
    if len(wanted.outputs) != len(got.outputs):
        now = ", ".join(map(str, got.outputs))
        return (f"The origin has {len(wanted.outputs)} outputs, the new model {len(got.outputs)}: {now}.",)
    pairs = zip((*wanted.inputs, *wanted.outputs), (*got.inputs, *got.outputs), strict=True)
    return tuple(f"{old} became {new}." for old, new in pairs if (old.shape, old.dtype) != (new.shape, new.dtype))


def _fixed_batch(signature: IOSignature) -> dict[str, int]:
    """The fixed batch of a signature, as the size of the trained module's free one."""
    first = next((s.shape[0] for s in signature.inputs if s.shape), None)
    return {BATCH: first} if isinstance(first, int) else {}


def _verified(
    origin: BaseConverter, source: Callable[[], Runner], target: Callable[[], Runner], **choices: Any
) -> VerificationResult:
    """Compare a model of the origin's format with the trained one, which here is what has to come out."""
    if origin.options.verify is False:
        return VerificationResult.unverified("verify=False")
    return compared(
        source,
        target,
        level=origin.options.verify,
        target_format=origin.format,
        rtol=origin.options.rtol,
        **choices,
    )
