"""Files of weights are loaded right, or refused with the right error; a module into which one does not fit is as it was."""

import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from mlconverter import Converter, CorruptModelError, NotConvertibleError, SignatureError, UnsafeModelError


class Net(nn.Module):
    """Layers, a normalisation with buffers, and two names of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.last = nn.Linear(3, 3)
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = self.last.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.last(self.norm(self.first(x))))


@pytest.fixture
def net() -> Net:
    return Net().eval()


@pytest.fixture
def other() -> Net:
    """Another one, whose weights go into files."""
    torch.manual_seed(1)
    net = Net().eval()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_()
        net.norm.running_mean.fill_(0.25)
        net.norm.num_batches_tracked.fill_(7)
    return net


def loaded(net: nn.Module, path: Path, **options) -> None:
    Converter(net, path, input_shape=(1, 4), **options)


def assert_same(net: nn.Module, other: nn.Module) -> None:
    ours, theirs = net.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in theirs)


def write_lightning(other: nn.Module, path: Path, prefix: str = "model.", **more) -> None:
    state = {f"{prefix}{n}": t for n, t in other.state_dict().items()}
    found = {"epoch": 3, "global_step": 9, "pytorch-lightning_version": "2.5.0", "state_dict": state | more}
    torch.save({**found, "loops": {}, "callbacks": {}, "optimizer_states": [], "lr_schedulers": []}, path)


def write_once(other: nn.Module, path: Path) -> None:
    """As files of safetensors have tied weights: under one of their names."""
    save_file({n: t.clone() for n, t in other.state_dict().items() if n != "tied.weight"}, path)


def in_double(state):
    return {n: t.double() if t.is_floating_point() else t for n, t in state.items()}


RIGHT = {
    "weights.pt": lambda other, path: torch.save(other.state_dict(), path),
    "legacy.pt": lambda other, path: torch.save(other.state_dict(), path, _use_new_zipfile_serialization=False),
    "plain_dict.pth": lambda other, path: torch.save(dict(other.state_dict()), path),
    "parallel.pt": lambda other, path: torch.save(nn.DataParallel(other).state_dict(), path),
    "compiled.pt": lambda other, path: torch.save(torch.compile(other, backend="eager").state_dict(), path),
    "average.pt": lambda other, path: torch.save(torch.optim.swa_utils.AveragedModel(other).state_dict(), path),
    "double.pt": lambda other, path: torch.save(in_double(other.state_dict()), path),
    "tutorial.pt": lambda other, path: torch.save({"model_state_dict": other.state_dict(), "loss": 0.3}, path),
    "lightning.ckpt": write_lightning,
    "lightning_itself.ckpt": lambda other, path: write_lightning(other, path, prefix=""),
    "lightning_with_more.ckpt": lambda other, path: write_lightning(other, path, "net.", **{"loss.weight": torch.ones(2)}),
    "weights.safetensors": lambda other, path: save_file({n: t.clone() for n, t in other.state_dict().items()}, path),
    "tied_once.safetensors": write_once,
    "no_extension": lambda other, path: write_once(other, path),
}


@pytest.mark.parametrize("name", RIGHT)
def test_files_that_fit(name: str, net: Net, other: Net, tmp_path: Path) -> None:
    RIGHT[name](other, tmp_path / name)
    before = dict(net.named_parameters())
    loaded(net, tmp_path / name)
    assert_same(net, other)
    assert all(parameter is before[n] for n, parameter in net.named_parameters()), "an optimiser would train others"


def test_what_was_saved_loads_again(other: Net, tmp_path: Path) -> None:
    for name in ("weights.pt", "weights.safetensors"):
        net = Net()
        loaded(net, Converter(other, input_shape=(1, 4)).save(tmp_path / name))
        assert_same(net, other)
    assert (tmp_path / "weights.safetensors").read_bytes()[8:9] == b"{"


def test_files_alone_say_what_is_missing(other: Net, tmp_path: Path) -> None:
    for name, write in RIGHT.items():
        write(other, tmp_path / name)
        with pytest.raises(SignatureError, match="give the module"):
            Converter(tmp_path / name)


class Hooked(nn.Module):
    """A module that reads files of an older form of itself, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.new = nn.Linear(4, 3)
        self.register_load_state_dict_pre_hook(self._renamed)

    @staticmethod
    def _renamed(module, state, prefix, *rest) -> None:
        for name in [n for n in state if n.startswith(f"{prefix}old.")]:
            state[name.replace("old.", "new.")] = state.pop(name)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.new(x)


def test_modules_that_rename_what_they_load(tmp_path: Path) -> None:
    state = {"old.weight": torch.ones(3, 4), "old.bias": torch.ones(3)}
    torch.save(state, tmp_path / "old.pt")
    net = Hooked()
    loaded(net, tmp_path / "old.pt")
    assert torch.equal(net.new.weight, state["old.weight"])
    torch.save({**state, "more": torch.ones(1)}, tmp_path / "more.pt")
    net = Hooked()
    before = net.new.weight.clone()
    with pytest.raises(SignatureError, match="more"):
        loaded(net, tmp_path / "more.pt")
    assert torch.equal(net.new.weight, before)


def test_files_of_before_a_buffer_was_there(net: Net, other: Net, tmp_path: Path) -> None:
    """Versions of a state dict are torch's own business, and its own way is taken."""
    state = OrderedDict((n, t) for n, t in other.state_dict().items() if "num_batches" not in n)
    state._metadata = OrderedDict({"": {"version": 1}, "norm": {"version": 1}})
    torch.save(state, tmp_path / "old.pt")
    loaded(net, tmp_path / "old.pt")
    assert torch.equal(net.last.weight, other.last.weight)


class Custom:
    """What no file of weights may hold."""


def cut(path: Path, other: nn.Module) -> None:
    torch.save(other.state_dict(), path)
    path.write_bytes(path.read_bytes()[:-200])


def flipped(path: Path, other: nn.Module) -> None:
    """An archive whose pickle is damaged while the archive itself is whole."""
    torch.save(other.state_dict(), path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content[:40] + b"\xff" + content[41:] if name.endswith("data.pkl") else content)


def directory(path: Path, other: nn.Module) -> None:
    """An archive whose list of files is damaged."""
    torch.save(other.state_dict(), path)
    content = bytearray(path.read_bytes())
    start = content.find(b"PK\x01\x02")
    content[start : start + 4] = b"abcd"
    path.write_bytes(bytes(content))


def without_pickle(path: Path, other: nn.Module) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")


def memo(path: Path, other: nn.Module) -> None:
    """Bytes that a pickle machine takes for a look-up of what is not there: an error of Python's, not of torch's."""
    path.write_bytes(b"\x80\x02h\x07.")


def archived_memo(path: Path, other: nn.Module) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", b"\x80\x02h\x07.")
        archive.writestr("x/version", "3\n")


def short_tensors(path: Path, other: nn.Module) -> None:
    save_file({n: t.clone() for n, t in other.state_dict().items()}, path)
    path.write_bytes(path.read_bytes()[:-20])


def wrong_header(path: Path, other: nn.Module) -> None:
    header = json.dumps({"first.weight": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))


def exported(path: Path, other: nn.Module) -> None:
    torch.export.save(torch.export.export(other, (torch.zeros(2, 4),)), path)


def scripted(path: Path, other: nn.Module) -> None:
    torch.jit.save(torch.jit.trace(other, (torch.zeros(2, 4),)), path)


WRONG = {
    "empty.pt": (lambda path, other: path.write_bytes(b""), CorruptModelError, "empty"),
    "garbage.pt": (lambda path, other: path.write_bytes(bytes(range(256)) * 8), CorruptModelError, "readable"),
    "text.pt": (lambda path, other: path.write_text("hello, this is text"), CorruptModelError, "readable"),
    "cut.pt": (cut, CorruptModelError, "readable"),
    "flipped.pt": (flipped, CorruptModelError, "readable"),
    "directory.pt": (directory, CorruptModelError, "readable"),
    "memo.pt": (memo, CorruptModelError, "readable"),
    "archived_memo.pt": (archived_memo, CorruptModelError, "readable"),
    "archive.pt": (without_pickle, CorruptModelError, "readable"),
    "pickle.pt": (lambda path, other: path.write_bytes(pickle.dumps({"a": 1})), CorruptModelError, "readable"),
    "module.pt": (lambda path, other: torch.save(other, path), UnsafeModelError, "trust=True"),
    "legacy_module.pt": (
        lambda path, other: torch.save(other, path, _use_new_zipfile_serialization=False),
        UnsafeModelError,
        "trust=True",
    ),
    "object.pt": (
        lambda path, other: torch.save({"state_dict": other.state_dict(), "x": Custom()}, path),
        UnsafeModelError,
        "trust",
    ),
    "program.pt": (exported, NotConvertibleError, "torch.export.load"),
    "program.pt2": (exported, NotConvertibleError, "torch.export.load"),
    "script.pt": (scripted, UnsafeModelError, "trust=True"),
    "tensor.pt": (lambda path, other: torch.save(torch.zeros(3), path), SignatureError, "holds a Tensor"),
    "list.pt": (lambda path, other: torch.save([torch.zeros(3)], path), SignatureError, "holds a list"),
    "none.pt": (lambda path, other: torch.save(None, path), SignatureError, "holds a NoneType"),
    "other.pt": (lambda path, other: torch.save({"other": torch.zeros(1)}, path), SignatureError, "do not fit.*Missing"),
    "numbers.pt": (lambda path, other: torch.save({"first.weight": 3}, path), SignatureError, "'first.weight' is no tensor"),
    "keys.pt": (lambda path, other: torch.save({0: torch.zeros(1)}, path), SignatureError, "0 is no name"),
    "shape.pt": (
        lambda path, other: torch.save({**other.state_dict(), "last.bias": torch.zeros(9)}, path),
        SignatureError,
        r"last\.bias.*\[9\].*\[3\]",
    ),
    "integers.pt": (
        lambda path, other: torch.save({**other.state_dict(), "last.bias": torch.zeros(3, dtype=torch.int32)}, path),
        SignatureError,
        r"last\.bias.*int32",
    ),
    "ambiguous.ckpt": (
        lambda path, other: write_lightning(other, path, **{f"ema.{n}": t for n, t in other.state_dict().items()}),
        SignatureError,
        "several prefixes: ema., model.",
    ),
    "part.pt": (
        lambda path, other: torch.save({f"net.{n}": t for n, t in other.state_dict().items()}, path),
        SignatureError,
        "do not fit",
    ),
    "short.safetensors": (short_tensors, CorruptModelError, "safetensors"),
    "header.safetensors": (wrong_header, CorruptModelError, "safetensors"),
    "empty.safetensors": (lambda path, other: path.write_bytes(b""), CorruptModelError, "safetensors"),
    "other.safetensors": (lambda path, other: save_file({"a": torch.zeros(1)}, path), SignatureError, "do not fit"),
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", WRONG)
def test_files_that_do_not(name: str, net: Net, other: Net, tmp_path: Path) -> None:
    write, error, said = WRONG[name]
    write(tmp_path / name, other)
    before = {n: (t, t.clone(), t._version) for n, t in net.state_dict(keep_vars=True).items()}
    with pytest.raises(error, match=said):
        loaded(net, tmp_path / name)
    for n, tensor in net.state_dict(keep_vars=True).items():
        same, value, version = before[n]
        assert tensor is same and torch.equal(tensor, value) and tensor._version == version


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ["module.pt", "legacy_module.pt", "object.pt", "script.pt"])
def test_what_is_trusted_is_loaded(name: str, net: Net, other: Net, tmp_path: Path) -> None:
    WRONG[name][0](tmp_path / name, other)
    loaded(net, tmp_path / name, trust=True)
    assert_same(net, other)


def test_trust_does_not_mend_what_is_damaged(net: Net, tmp_path: Path) -> None:
    for name in ("empty.pt", "garbage.pt", "memo.pt", "archive.pt"):
        WRONG[name][0](tmp_path / name, net)
        with pytest.raises(CorruptModelError, match=name):
            loaded(net, tmp_path / name, trust=True)


def test_modules_that_cannot_be_copied_are_left_alone(net: Net, other: Net, tmp_path: Path) -> None:
    torch.save(other.state_dict(), tmp_path / "weights.pt")
    net.stream = io.BufferedReader(io.BytesIO())
    with pytest.raises(SignatureError, match="Load them yourself"):
        loaded(net, tmp_path / "weights.pt")


def test_layers_without_a_shape_yet_take_it_from_the_file(tmp_path: Path) -> None:
    torch.save(nn.Linear(4, 3).state_dict(), tmp_path / "weights.pt")
    lazy = nn.LazyLinear(3)
    loaded(lazy, tmp_path / "weights.pt")
    assert lazy.weight.shape == (3, 4)
    torch.save({"weight": torch.ones(3, 4), "other": torch.ones(1)}, tmp_path / "other.pt")
    lazy = nn.LazyLinear(3)
    with pytest.raises(SignatureError, match="do not fit"):
        loaded(lazy, tmp_path / "other.pt")
    assert nn.parameter.is_lazy(lazy.weight)
