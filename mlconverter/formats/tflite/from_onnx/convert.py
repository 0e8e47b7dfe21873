"""ONNX → TFLite, the whole way: normalise, refuse, translate, write the file."""

from __future__ import annotations

from mlconverter.conversion import Conversion
from mlconverter.formats.tflite.from_onnx.builder import Builder
from mlconverter.formats.tflite.from_onnx.custom import set_apart
from mlconverter.formats.tflite.from_onnx.file import file_of
from mlconverter.formats.tflite.from_onnx.half import halved
from mlconverter.formats.tflite.from_onnx.native import with_native_kernels
from mlconverter.formats.tflite.from_onnx.ops import translates
from mlconverter.formats.tflite.from_onnx.translate import Translation
from mlconverter.formats.tflite.from_onnx.variables import of_fixed_size, with_variables
from mlconverter.formats.tflite.metadata import about_onnx
from mlconverter.formats.tflite.model import TFLiteModel
from mlconverter.hub.activations import recognise_activations
from mlconverter.hub.expand import expand
from mlconverter.hub.model import HubModel
from mlconverter.hub.normalise import normalise
from mlconverter.hub.refusing import refuse_unsupported
from mlconverter.hub.spelled import spell_out
from mlconverter.hub.states import initial_states
from mlconverter.options import ConvertOptions


def convert(hub: HubModel, options: ConvertOptions) -> Conversion:
    """A TFLite model that computes what the hub's graph computes, under the same names, order and axis layout.

    States are no inputs and outputs of it: the file keeps them itself.

    Args:
        hub: the model; it is not changed.
        options: the choices of the conversion.

    Raises:
        ConversionError: it has states of no fixed size, and the options insist on that.
        UnsupportedOpsError: with every operator that cannot be translated.
        TranslationError: a node is inconsistent.
    """
    hub = of_fixed_size(hub, options)
    source, left = set_apart(hub.model, options.allow_custom, translates.route) if options.allow_custom else (hub.model, ())
    model = normalise(source)
    if spell_out(model):
        model = normalise(model)
    model = expand(model, translates)
    recognise_activations(model)
    refuse_unsupported(model, translates)
    builder = Builder()
    graph = with_native_kernels(Translation(model, builder).run(), builder.grids)
    graph, notes = halved(graph) if options.weights == "float16" else (graph, ())
    graph = with_variables(graph, hub.signature, initial_states(hub.model.metadata_props, hub.signature))
    signature = hub.signature.without_states
    result = TFLiteModel(file_of(graph, signature, about_onnx(hub.model)))
    return Conversion(result, signature, (*hub.notes, *left, *notes))
