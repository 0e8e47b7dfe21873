"""ONNX → Torch, the whole way: normalise, refuse, decide roles, record, build the module."""

from __future__ import annotations

from mlconverter.formats.torch.arrays import to_tensor
from mlconverter.formats.torch.fingerprint import fingerprint
from mlconverter.formats.torch.from_onnx import roles
from mlconverter.formats.torch.from_onnx.builder import Builder
from mlconverter.formats.torch.from_onnx.ops import translates
from mlconverter.formats.torch.from_onnx.runtime import State
from mlconverter.formats.torch.from_onnx.translate import Translation
from mlconverter.formats.torch.module import ConvertedModule
from mlconverter.formats.torch.origin import ModuleOrigin
from mlconverter.formats.torch.state import dtypes_of
from mlconverter.formats.torch.storage import keep_storable
from mlconverter.hub.activations import recognise_activations
from mlconverter.hub.expand import expand
from mlconverter.hub.model import HubModel
from mlconverter.hub.normalise import normalise
from mlconverter.hub.refusing import refuse_unsupported
from mlconverter.hub.states import initial_states
from mlconverter.hub.weights import compose
from mlconverter.hub.whole_weights import make_weights_real
from mlconverter.options import ConvertOptions


def convert(hub: HubModel, options: ConvertOptions, source_hash: str) -> tuple[ConvertedModule, tuple[str, ...]]:
    """A trainable module that computes what the hub's graph computes, in ``eval()`` mode.

    Args:
        hub: the model; it is not changed.
        options: the choices of the conversion, which the module keeps.
        source_hash: digest of the origin, which the module keeps.

    Returns:
        The module, and notes for the report: which constants are buffers and why.

    Raises:
        UnsupportedOpsError: with every operator that has no translator.
        TranslationError: a node could not be translated.
    """
    model = normalise(hub.model)
    real = make_weights_real(model)
    model = expand(model, translates)
    recognise_activations(model)
    refuse_unsupported(model, translates)
    decided = roles.decide(model)
    builder = Builder()
    builder.decide_roles(lambda weight: decided[weight].kind if weight in decided else "parameter")
    positions = {name: position for position, name in enumerate(hub.signature.output_names)}
    states = {came: (goes, positions[goes]) for came, goes in hub.signature.states}
    Translation(model, model.graph, builder, states=states).run()
    links = builder.links
    names = {link.target for link in real}
    origins = compose((*(link for link in hub.links if link.target not in names), *compose(hub.links, real)), links)
    module = ConvertedModule(builder.root, builder.graph)
    keep_storable(module, origins)
    for name, value in initial_states(hub.model.metadata_props, hub.signature).items():
        state = module.get_submodule(builder.states[name])
        assert isinstance(state, State)
        state.initial.copy_(to_tensor(value))
        state.reset()
    module.eval()
    signature = hub.signature.without_states
    origin = ModuleOrigin(origins, source_hash, options, signature, fingerprint(module), dtypes_of(module))
    module.remember(origin)
    reached = {link.source for link in links}
    kept = {name: role.reason for name, role in decided.items() if role.kind == "buffer" and name in reached}
    buffers = [f"'{name}' is a buffer: {reason}." for name, reason in kept.items()]
    unused = [f"'{name}' is left out: nothing that reaches an output uses it." for name in decided if name not in reached]
    return module, (*buffers, *unused)
