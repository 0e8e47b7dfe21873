"""The module that a conversion gives: ordinary torch, that knows where its weights come from."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import fx, nn

from mlconverter.errors import SignatureError
from mlconverter.formats.torch.origin import ModuleOrigin, WeightOrigin
from mlconverter.formats.torch.plain_graph import PlainGraph
from mlconverter.formats.torch.readable import readable
from mlconverter.formats.torch.standalone import Group
from mlconverter.formats.torch.states import reset_states
from mlconverter.formats.torch.storage import Storage, storages

_META_KEY = "mlconverter"
_IMPLEMENTATION = "GraphModuleImpl"
"""What torch.fx calls the class that it makes for each module, to hang its forward on."""


class ConvertedModule(fx.GraphModule):
    """A ``GraphModule`` whose weights have a way back; ``code`` shows what it computes.

    What is trained is what the origin can hold. Gradients of sparse weights are masked to the pattern that the
    origin stores. Weights that it keeps in half precision are trained in single precision, and every forward sees
    them rounded as they will be stored (gradients pass the rounding straight through), so that the file computes
    what the module computes; ``round_to_storage = False`` turns the rounding off. Modules that torch itself exports
    or compiles round as well.
    """

    def __init__(self, root: nn.Module | dict[str, Any], graph: fx.Graph, class_name: str = "ConvertedModule") -> None:
        super().__init__(root, graph, class_name)
        for part in self.modules():
            if type(part) is nn.Module:  # what torch.fx puts between a module and its layers
                part.__class__ = Group

    @property
    def code(self) -> str:
        """What the module computes, as readable Python."""
        return readable(self.graph)

    def remember(self, origin: ModuleOrigin) -> None:
        """Keep what the way back needs."""
        self.meta[_META_KEY] = origin

    @property
    def knows_its_origin(self) -> bool:
        """Whether there is anything to remember."""
        return _META_KEY in self.meta

    @property
    def origin(self) -> ModuleOrigin:
        """What the module keeps of its conversion."""
        origin: ModuleOrigin = self.meta[_META_KEY]
        return origin

    @property
    def weight_origins(self) -> dict[str, tuple[WeightOrigin, ...]]:
        """By parameter or buffer: the tensors of the origin that it comes from, and how."""
        origins: dict[str, list[WeightOrigin]] = {}
        for link in self.origin.links:
            origins.setdefault(link.target, []).append(WeightOrigin(link.source, link.steps))
        return {name: tuple(found) for name, found in origins.items()}

    @property
    def round_to_storage(self) -> bool:
        """Whether weights are seen in the precision in which the origin stores them."""
        return all(part._rounds for part in self.modules() if isinstance(part, Storage))

    @round_to_storage.setter
    def round_to_storage(self, value: bool) -> None:
        for part in self.modules():
            if isinstance(part, Storage):
                part._rounds = value

    def reset_state(self) -> None:
        """Let the next call be the first one, where the model keeps something from call to call."""
        reset_states(self)

    # GraphModule copies and saves its graph and its weights, and nothing else that a module has.

    def __deepcopy__(self, memo: dict[int, Any]) -> ConvertedModule:
        twin = memo[id(self)] = _blank(_class_of(self))
        state = {name: copy.deepcopy(value, memo) for name, value in vars(self).items() if name != "_graph"}
        twin._revive(state, copy.deepcopy(self.graph, memo))
        return twin

    def __copy__(self) -> ConvertedModule:
        twin = _blank(_class_of(self))
        state = {name: value.copy() if isinstance(value, dict) else value for name, value in vars(self).items()}
        twin._revive(state, copy.deepcopy(self.graph))
        return twin

    def _replicate_for_data_parallel(self) -> ConvertedModule:
        twin = copy.copy(self)  # which gets its parameters as plain attributes, as torch.nn.Module does it
        twin.__dict__.update(_parameters={}, _is_replica=True)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (_class_of(self),), vars(self) | {"_graph": PlainGraph.of(self.graph)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._revive(state, state["_graph"].graph())

    def _revive(self, state: dict[str, Any], graph: fx.Graph) -> None:
        nn.Module.__setstate__(self, state)  # type: ignore[no-untyped-call]
        self.graph = graph  # which writes the code anew


def _blank(cls: type[ConvertedModule]) -> ConvertedModule:
    """A module with nothing in it yet."""
    module = cls.__new__(cls)
    type(module).__name__ = cls.__name__
    return module


def _class_of(module: ConvertedModule) -> type[ConvertedModule]:
    """The class that a module was made with, without the one that torch.fx put before it.

    Raises:
        SignatureError: it is of another class now, whose forward a copy would not have.
    """
    made, *others = type(module).__mro__
    if made.__qualname__.rpartition(".")[2] != _IMPLEMENTATION:
        raise SignatureError(f"A '{made.__name__}' cannot be copied or saved: torch.fx puts another forward before its own.")
    cls: type[ConvertedModule] = others[0]
    return cls


def as_stored(module: nn.Module) -> nn.Module:
    """A module that computes the same with nothing to round: itself, or a copy whose weights are rounded already."""
    if not any(isinstance(part, Storage) for part in module.modules()):
        return module
    twin = copy.deepcopy(module)
    weights = dict(twin.named_parameters(remove_duplicate=False))
    for name, storage in storages(twin).items():
        if storage._rounds and name in weights:
            with torch.no_grad():
                weights[name].copy_(storage.rounded(weights[name]))
    for converted in [part for part in twin.modules() if isinstance(part, ConvertedModule)]:
        converted.round_to_storage = False
    return twin
