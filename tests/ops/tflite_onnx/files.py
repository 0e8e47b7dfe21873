"""Writes small TFLite files for tests, through the schema's own object API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TYPES = {k.lower(): v for k, v in vars(schema.TensorType).items() if not k.startswith("_")}
OPERATORS = {k: v for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}


class File:
    """A model with one subgraph; tensors are the numbers that the methods give.

    The shapes of computed tensors are asked of LiteRT when the file is finished, so that tests need not say them.
    """

    def __init__(self) -> None:
        self._model = schema.ModelT(version=3, description="test", operatorCodes=[], buffers=[schema.BufferT()], metadata=[])
        self._graph = schema.SubGraphT(tensors=[], operators=[], inputs=[], outputs=[], name="main")
        self._model.subgraphs = [self._graph]
        self._model.signatureDefs = []
        self._codes: dict[tuple, int] = {}
        self._computed: list[int] = []

    @property
    def count(self) -> int:
        """Number of tensors so far."""
        return len(self._graph.tensors)

    def tensor(self, shape, dtype="float32", *, name=None, buffer=0, signature=None, quantization=None, variable=False) -> int:
        index = len(self._graph.tensors)
        self._graph.tensors.append(
            schema.TensorT(
                shape=np.asarray(shape, np.int32),
                type=TYPES[dtype],
                buffer=buffer,
                name=f"t{index}" if name is None else name,
                shapeSignature=None if signature is None else np.asarray(signature, np.int32),
                quantization=quantization,
                isVariable=variable,
            )
        )
        return index

    def input(self, shape, dtype="float32", *, name=None, free: Sequence[int] = (), **more) -> int:
        signature = [-1 if i in free else d for i, d in enumerate(shape)] if free else None
        index = self.tensor(shape, dtype, name=name, signature=signature, **more)
        self._graph.inputs.append(index)
        return index

    def buffer(self, data: bytes | np.ndarray) -> int:
        raw = np.frombuffer(data.tobytes() if isinstance(data, np.ndarray) else data, np.uint8)
        self._model.buffers.append(schema.BufferT(data=raw))
        return len(self._model.buffers) - 1

    def constant(self, values, dtype=None, *, buffer=None, **more) -> int:
        array = np.asarray(values, dtype)
        return self.tensor(array.shape, array.dtype.name, buffer=buffer or self.buffer(array), **more)

    def sparse(self, shape, values, sparsity, **more) -> int:
        index = self.tensor(shape, values.dtype.name, buffer=self.buffer(values), **more)
        self._graph.tensors[index].sparsity = sparsity
        return index

    def op(
        self,
        name,
        inputs,
        dtypes="float32",
        *,
        options=None,
        version=1,
        custom=None,
        shapes=None,
        names=None,
        quantization=None,
        intermediates=(),
    ) -> int | list[int]:
        """An operator; ``dtypes`` says how many outputs it has."""
        several = not isinstance(dtypes, str)
        outputs = [
            self.tensor(shapes[i] if shapes else (), dtype, name=names[i] if names else None, quantization=quantization)
            for i, dtype in enumerate(dtypes if several else [dtypes])
        ]
        if not shapes:
            self._computed += outputs
        code = (name, version, custom)
        if code not in self._codes:
            self._codes[code] = len(self._model.operatorCodes)
            number = OPERATORS["CUSTOM" if name is None else name]
            self._model.operatorCodes.append(
                schema.OperatorCodeT(
                    deprecatedBuiltinCode=min(number, 127),
                    builtinCode=number,
                    version=version,
                    customCode=name is None and custom,
                )
            )
        operator = schema.OperatorT(opcodeIndex=self._codes[code], inputs=list(inputs), outputs=outputs)
        operator.intermediates = list(intermediates)
        if name is None:
            self._model.operatorCodes[self._codes[code]].customCode = custom
            operator.customOptions = np.frombuffer(options, np.uint8)
        else:
            self._model.operatorCodes[self._codes[code]].customCode = None
            if options is not None:
                kind = type(options).__name__.removesuffix("T")
                if hasattr(schema.BuiltinOptions, kind):
                    operator.builtinOptions, operator.builtinOptionsType = options, getattr(schema.BuiltinOptions, kind)
                else:
                    operator.builtinOptions2, operator.builtinOptions2Type = options, getattr(schema.BuiltinOptions2, kind)
        self._graph.operators.append(operator)
        return outputs if several else outputs[0]

    def quantize(self, index: int, quantization: schema.QuantizationParametersT) -> None:
        """Say what the integers of a tensor stand for."""
        self._graph.tensors[index].quantization = quantization

    def remember(self, index: int) -> None:
        """Let a tensor keep from call to call what operators leave in it."""
        self._graph.tensors[index].isVariable = True

    def subgraph(self, build: Callable[[], int | Sequence[int]], name="body") -> int:
        """A further subgraph, written by the same methods inside ``build``, which gives its outputs; its number."""
        before, self._graph = self._graph, schema.SubGraphT(tensors=[], operators=[], inputs=[], outputs=[], name=name)
        computed, self._computed = self._computed, []
        outputs = build()
        self._graph.outputs = [outputs] if isinstance(outputs, int) else list(outputs)
        self._model.subgraphs.append(self._graph)
        self._graph, self._computed = before, computed
        return len(self._model.subgraphs) - 1

    def signature(self, inputs: Mapping[str, int], outputs: Mapping[str, int], key="serving_default", subgraph=0) -> None:
        maps = [[schema.TensorMapT(name=n, tensorIndex=i) for n, i in m.items()] for m in (inputs, outputs)]
        self._model.signatureDefs.append(
            schema.SignatureDefT(inputs=maps[0], outputs=maps[1], signatureKey=key, subgraphIndex=subgraph)
        )

    def free_batch(self) -> bool:
        """Free the first dimension of the inputs that have 1 there; whether there are any."""
        inputs = [self._graph.tensors[i] for i in self._graph.inputs]
        batched = [t for t in inputs if len(t.shape) and t.shape[0] == 1]
        for tensor in batched:
            tensor.shapeSignature = np.asarray([-1, *tensor.shape[1:]], np.int32)
        return bool(batched)

    def finish(self, *outputs: int, shapes: bool = True) -> bytes:
        self._graph.outputs = list(outputs)
        if shapes and self._computed:
            self._ask_for_shapes()
        return self._pack()

    def _pack(self) -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), file_identifier=b"TFL3")
        return bytes(builder.Output())

    def _ask_for_shapes(self) -> None:
        interpreter = Interpreter(
            model_content=self._pack(), experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], np.ones(detail["shape"], detail["dtype"]))
        interpreter.invoke()
        details = {d["index"]: d["shape"] for d in interpreter.get_tensor_details()}
        free = any(t.shapeSignature is not None for t in self._graph.tensors)
        for index in self._computed:
            tensor = self._graph.tensors[index]
            tensor.shape = np.asarray(details[index], np.int32)
            if free and len(tensor.shape) and tensor.shape[0] == 1:
                tensor.shapeSignature = np.asarray([-1, *tensor.shape[1:]], np.int32)
