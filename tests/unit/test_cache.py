import errno
import hashlib
import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from mlconverter.cache import MANIFESTS, IntermediateStore, ManifestKey, atomic_write, content_hash
from mlconverter.errors import SaveError

KEY = ManifestKey("net", "onnx", ".onnx", "0" * 64, {"opset": "18"}, {"mlconverter": "0.1.0"})


def _visible(folder):
    return sorted(p.name for p in folder.iterdir() if p.name != MANIFESTS)


class TestContentHash:
    def test_a_file_and_its_bytes_are_the_same(self, tmp_path):
        data = os.urandom(3_000_000)
        (tmp_path / "f").write_bytes(data)
        assert content_hash(tmp_path / "f") == content_hash(data) == hashlib.sha256(data).hexdigest()


class TestAtomicWrite:
    def test_bytes(self, tmp_path):
        assert atomic_write(tmp_path / "f.bin", b"abc").read_bytes() == b"abc"
        assert _visible(tmp_path) == ["f.bin"]

    def test_a_writer_gets_the_same_name_and_may_write_more_beside_it(self, tmp_path):
        def write(path):
            assert path.name == "f.onnx" and path.parent.parent == tmp_path
            path.write_bytes(b"abc")
            path.with_name("f.onnx.data").write_bytes(b"def")

        (tmp_path / "f.onnx.data").write_bytes(b"old")
        assert atomic_write(tmp_path / "f.onnx", write).read_bytes() == b"abc"
        assert (tmp_path / "f.onnx.data").read_bytes() == b"def"
        assert _visible(tmp_path) == ["f.onnx", "f.onnx.data"]

    def test_a_writer_may_choose_the_name(self, tmp_path):
        path = atomic_write(tmp_path / "f", lambda path: path.with_name("f.ts").write_bytes(b"abc"))
        assert path == tmp_path / "f.ts" and path.read_bytes() == b"abc" and _visible(tmp_path) == ["f.ts"]

    def test_a_writer_that_writes_no_file_leaves_none(self, tmp_path):
        def beside(path):
            path.with_name("a").touch()
            path.with_name("b").touch()

        for writer in (beside, lambda path: None, lambda path: path.mkdir()):
            with pytest.raises(SaveError, match="no such file was written"):
                atomic_write(tmp_path / "f", writer)
        assert _visible(tmp_path) == []

    def test_what_belongs_to_a_file_is_there_before_it(self, tmp_path, monkeypatch):
        moved, replace_ = [], Path.replace

        def watched(path, target):
            moved.append(path.name)
            return replace_(path, target)

        def write(path):
            path.write_bytes(b"abc")
            path.with_name("f.onnx.data").write_bytes(b"def")

        monkeypatch.setattr(Path, "replace", watched)
        atomic_write(tmp_path / "f.onnx", write)
        assert moved == ["f.onnx.data", "f.onnx"]

    def test_a_folder_in_the_way_of_several_files_leaves_all_as_they_were(self, tmp_path):
        def write(path):
            path.write_bytes(b"abc")
            path.with_name("f.onnx.data").write_bytes(b"def")

        (tmp_path / "f.onnx").mkdir()
        (tmp_path / "f.onnx.data").write_bytes(b"old")
        with pytest.raises(SaveError):
            atomic_write(tmp_path / "f.onnx", write)
        assert (tmp_path / "f.onnx.data").read_bytes() == b"old"
        assert _visible(tmp_path) == ["f.onnx", "f.onnx.data"]

    def test_an_existing_file_is_replaced(self, tmp_path):
        (tmp_path / "f").write_bytes(b"a much longer content")
        assert atomic_write(tmp_path / "f", b"abc").read_bytes() == b"abc"

    def test_a_link_stays_a_link(self, tmp_path):
        (tmp_path / "real").write_bytes(b"old")
        (tmp_path / "link").symlink_to("real")
        atomic_write(tmp_path / "link", b"new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_bytes() == b"new"

    def test_a_missing_folder_is_named(self, tmp_path):
        with pytest.raises(SaveError, match="does not exist"):
            atomic_write(tmp_path / "no" / "f", b"abc")

    def test_a_folder_in_the_way(self, tmp_path):
        (tmp_path / "f").mkdir()
        with pytest.raises(SaveError):
            atomic_write(tmp_path / "f", b"abc")
        assert _visible(tmp_path) == ["f"]

    def test_a_full_disk_leaves_the_old_file_and_nothing_else(self, tmp_path):
        def write(path):
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

        (tmp_path / "f").write_bytes(b"old")
        with pytest.raises(SaveError, match="No space left"):
            atomic_write(tmp_path / "f", write)
        assert (tmp_path / "f").read_bytes() == b"old"
        assert _visible(tmp_path) == ["f"]

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_other_errors_pass_through_and_leave_nothing(self, tmp_path, error):
        def write(path):
            path.write_bytes(b"half")
            raise error

        with pytest.raises(error):
            atomic_write(tmp_path / "f", write)
        assert _visible(tmp_path) == []


class TestIntermediateStore:
    @pytest.fixture
    def store(self, tmp_path):
        return IntermediateStore(tmp_path / "cache")

    def test_what_was_stored_is_found_by_another_process_too(self, store):
        path = store.store(KEY, lambda p: p.write_bytes(b"model"))
        assert path.read_bytes() == b"model"
        assert (path.parent, path.suffix) == (store.folder, ".onnx")
        assert IntermediateStore(store.folder).lookup(KEY) == path

    def test_an_empty_store_has_nothing(self, store):
        assert store.lookup(KEY) is None
        assert not store.folder.exists()

    @pytest.mark.parametrize(
        "change",
        [
            {"source_hash": "1" * 64},
            {"format": "torch"},
            {"options": {"opset": "19"}},
            {"options": {}},
            {"versions": {"mlconverter": "0.2.0"}},
        ],
        ids=lambda c: next(iter(c)),
    )
    def test_another_key_has_nothing(self, store, change):
        store.store(KEY, lambda p: p.write_bytes(b"model"))
        assert store.lookup(replace(KEY, **change)) is None

    def test_a_renamed_source_finds_its_file(self, store):
        path = store.store(KEY, lambda p: p.write_bytes(b"model"))
        assert store.lookup(replace(KEY, stem="renamed")) == path

    def test_two_keys_of_one_name_stand_side_by_side(self, store):
        other = replace(KEY, options={"opset": "19"})
        first = store.store(KEY, lambda p: p.write_bytes(b"a"))
        second = store.store(other, lambda p: p.write_bytes(b"b"))
        assert first != second
        assert (store.lookup(KEY), store.lookup(other)) == (first, second)

    def test_storing_again_replaces(self, store):
        store.store(KEY, lambda p: p.write_bytes(b"a"))
        second = store.store(KEY, lambda p: p.write_bytes(b"b"))
        assert store.lookup(KEY) == second

    @pytest.mark.parametrize("content", [b"edited", None])
    def test_an_edited_or_lost_file_is_not_used(self, store, content):
        path = store.store(KEY, lambda p: p.write_bytes(b"model"))
        path.unlink() if content is None else path.write_bytes(content)
        assert store.lookup(KEY) is None

    def test_a_file_that_was_edited_is_never_overwritten_and_in_nobodys_way(self, store):
        path = store.store(KEY, lambda p: p.write_bytes(b"model"))
        path.write_bytes(b"edited by hand")
        other = store.store(KEY, lambda p: p.write_bytes(b"model"))
        assert path.read_bytes() == b"edited by hand"
        assert other != path and other.read_bytes() == b"model"
        assert store.lookup(KEY) == other
        assert store.store(KEY, lambda p: p.write_bytes(b"model")) == other

    @pytest.mark.parametrize("rest", [b"", b"mod"])
    def test_a_file_that_was_cut_off_is_replaced(self, store, rest):
        path = store.store(KEY, lambda p: p.write_bytes(b"model"))
        path.write_bytes(rest)
        assert store.lookup(KEY) is None
        assert store.store(KEY, lambda p: p.write_bytes(b"model")) == path
        assert store.lookup(KEY) == path
        assert path.read_bytes() == b"model"

    @pytest.mark.parametrize("where", ["model", "manifest"])
    def test_a_folder_in_the_place_of_a_file_is_in_nobodys_way(self, store, where):
        path = store.store(KEY, lambda p: p.write_bytes(b"model"))
        (manifest,) = (store.folder / MANIFESTS).iterdir()
        taken = path if where == "model" else manifest
        taken.unlink()
        (taken / "of somebody").mkdir(parents=True)
        assert store.lookup(KEY) is None
        again = store.store(KEY, lambda p: p.write_bytes(b"model"))
        assert again.read_bytes() == b"model"
        assert store.lookup(KEY) == again
        assert (taken / "of somebody").is_dir()

    @pytest.mark.parametrize("where", ["model", "manifest"])
    def test_a_file_that_cannot_be_read_is_in_nobodys_way(self, store, where, monkeypatch):
        path = store.store(KEY, lambda p: p.write_bytes(b"model"))
        (manifest,) = (store.folder / MANIFESTS).iterdir()
        locked, open_ = path if where == "model" else manifest, Path.open

        def guarded(self, mode="r", *args, **kwargs):  # file modes do not stop an administrator
            if self == locked and "r" in mode:
                raise PermissionError(errno.EACCES, "Permission denied")
            return open_(self, mode, *args, **kwargs)

        monkeypatch.setattr(Path, "open", guarded)
        assert store.lookup(KEY) is None
        again = store.store(KEY, lambda p: p.write_bytes(b"model"))
        monkeypatch.undo()
        assert again.read_bytes() == b"model"
        assert store.lookup(KEY) == again

    def test_files_that_belong_together_stay_together(self, store):
        def write(path):
            path.write_text(f"see {path.name}.data")
            path.with_name(f"{path.name}.data").write_bytes(b"weights")

        path = store.store(KEY, write)
        assert path.with_name(path.read_text().removeprefix("see ")).read_bytes() == b"weights"
        assert store.lookup(KEY) == path
        assert store.store(KEY, write) == path
        path.with_name(f"{path.name}.data").write_bytes(b"damaged")
        assert store.lookup(KEY) is None
        again = store.store(KEY, write)
        assert again != path
        assert store.lookup(KEY) == again

    def test_the_manifest_can_be_read_by_people(self, store):
        path = store.store(KEY, lambda p: p.write_bytes(b"model"))
        (manifest,) = (store.folder / MANIFESTS).iterdir()
        entry = json.loads(manifest.read_text())
        assert entry["file"] == path.name
        assert entry["key"]["options"] == {"opset": "18"}

    def test_a_failing_writer_leaves_nothing(self, store):
        def write(path):
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.raises(SaveError, match="No space left"):
            store.store(KEY, write)
        assert _visible(store.folder) == []
        assert store.lookup(KEY) is None

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(SaveError):
            IntermediateStore(tmp_path / "file" / "cache").store(KEY, lambda p: p.write_bytes(b""))

    def test_several_processes_at_once(self, store):
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            paths = list(pool.map(_store_one, [(store.folder, i % 3) for i in range(30)]))
        found = store.lookup(KEY)
        assert found in paths
        assert len(_visible(store.folder)) == 3

    def test_what_is_held_can_be_told_and_removed(self, store):
        def write(path):
            path.write_bytes(b"model")
            path.with_name(f"{path.name}.data").write_bytes(b"weights")

        several = store.store(KEY, write)
        one = store.store(replace(KEY, format="tflite", extension=".tflite"), lambda p: p.write_bytes(b"other"))
        edited = store.store(replace(KEY, format="torch", extension=".pt"), lambda p: p.write_bytes(b"third"))
        edited.write_bytes(b"somebody's own")
        (store.folder / "mine.txt").write_text("mine")
        left = store.folder / f".net.{'0' * 12}"
        left.mkdir()
        assert store.held() == {several: 5, several.with_name(f"{several.name}.data"): 7, one: 5}
        assert store.clear() == 17
        assert sorted(p.name for p in store.folder.iterdir()) == sorted([MANIFESTS, "mine.txt", edited.name])
        assert store.held() == {} and store.clear() == 0 and store.lookup(KEY) is None

    def test_the_default_folder_is_the_users_cache(self):
        assert IntermediateStore.default_folder().name == "mlconverter"


def _store_one(job):
    folder, content = job
    path = IntermediateStore(folder).store(KEY, lambda p: p.write_bytes(str(content).encode()))
    assert IntermediateStore(folder).lookup(KEY) is not None
    return path
