import subprocess
import sys

import pytest

from mlconverter.errors import SaveError
from mlconverter.logs import disable_logging, enable_logging, get_logger


@pytest.fixture(autouse=True)
def _silent_again():
    yield
    disable_logging()


def _speak_as_the_package(message):
    # loguru goes by the name of the calling module.
    exec("from mlconverter.logs import get_logger\nget_logger().info(message)", {"__name__": "mlconverter.x", "message": message})


def test_nothing_is_written_until_somebody_asks(tmp_path, capfd):
    seen = []
    handle = get_logger().add(lambda m: seen.append(str(m)))
    _speak_as_the_package("hello")
    get_logger().remove(handle)
    assert seen == []
    assert capfd.readouterr().err == ""


def test_the_default_file_lies_under_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = enable_logging()
    _speak_as_the_package("a message")
    assert path == tmp_path / "logs" / "converter.log"
    assert "a message" in path.read_text()


def test_only_this_package_is_written(tmp_path):
    path = enable_logging(tmp_path / "x.log")
    get_logger().warning("from a test")
    assert path.read_text() == ""


def test_enabling_twice_writes_once(tmp_path):
    path = enable_logging(tmp_path / "x.log")
    assert enable_logging(tmp_path / "x.log") == path
    _speak_as_the_package("once")
    assert path.read_text().count("once") == 1


def test_enabling_again_changes_the_level_and_keeps_the_file(tmp_path):
    path = enable_logging(tmp_path / "x.log", level="ERROR")
    _speak_as_the_package("too quiet")
    enable_logging(tmp_path / "x.log", level="INFO")
    _speak_as_the_package("loud enough")
    text = path.read_text()
    assert "too quiet" not in text
    assert text.count("loud enough") == 1


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SaveError, match="Cannot write the log"):
        enable_logging(tmp_path / "file" / "x.log")


def test_importing_does_not_import_loguru():
    code = "import sys, mlconverter.logs; sys.exit('loguru' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
