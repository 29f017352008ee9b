"""Files of results: whole or not at all, wherever a path leads."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spectui.files import open_private, write_file, write_new_file
from tests.support.disk import no_file_above

LONG = b"new" * 1000


def test_what_does_not_fit_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "j.json"
    path.write_bytes(b"old")
    for write, name in ((write_file, "j.json"), (write_file, "new"), (write_new_file, "new")):
        with no_file_above(100), pytest.raises(OSError, match="File too large"):
            write(tmp_path / name, LONG)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_has_the_mode_that_new_files_have_and_keeps_its_own(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.touch()
    for write in (write_file, write_new_file):
        write(tmp_path / f"a {write}", LONG)
        assert (tmp_path / f"a {write}").stat().st_mode == usual.stat().st_mode
        write(tmp_path / f"b {write}", LONG, is_private=True)
        assert stat.S_IMODE((tmp_path / f"b {write}").stat().st_mode) == 0o600
    for mode in (0o600, 0o640, 0o664):
        usual.chmod(mode)
        write_file(usual, LONG)
        assert stat.S_IMODE(usual.stat().st_mode) == mode


def test_links_in_place_of_ours_and_to_themselves_are_errors(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(tmp_path / "log", os.O_WRONLY)
    assert not (tmp_path / "other").exists()
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(OSError, match="symbolic links"):
        write_file(link, LONG)


def test_a_new_file_replaces_nothing(tmp_path: Path) -> None:
    path = tmp_path / "there"
    write_new_file(path, b"old")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    for taken in (path, dangling):
        with pytest.raises(FileExistsError):
            write_new_file(taken, LONG)
    assert path.read_bytes() == b"old"
    assert dangling.is_symlink()


def test_half_of_a_private_file_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.touch(0o600)
    modes: list[int] = []

    def seen(descriptor: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))

    monkeypatch.setattr(os, "fsync", seen)
    write_file(path, LONG)
    assert modes == [0o600]


def test_links_are_followed(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    (tmp_path / "folder").symlink_to(folder)
    (tmp_path / "first").symlink_to("folder/second")
    (folder / "second").symlink_to("third")
    for content in (b"new", LONG):
        write_file(tmp_path / "first", content)
        assert (folder / "third").read_bytes() == content
        assert not (folder / "third").is_symlink()
    assert (tmp_path / "first").is_symlink()
    assert (folder / "second").is_symlink()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_an_open_descriptor_takes_the_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = (
        "import sys; from pathlib import Path; from spectui.files import write_file;"
        "write_file(Path(sys.argv[1]), b'written')"
    )
    command = [sys.executable, "-c", code, str(tmp_path / name)]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout == b"written"
    with (tmp_path / "out").open("w+b") as file:
        subprocess.run(command, check=True, stdout=file)
        # Another file of that name would leave this one empty.
        assert file.read() == b"written"


def test_devices_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        write_file(pipe, b"written")
        assert reader.communicate()[0] == b"written"
    assert pipe.is_fifo()
    write_file(Path(os.devnull), LONG)
    assert Path(os.devnull).is_char_device()
    with pytest.raises(OSError, match="No space left on device"):
        write_file(Path("/dev/full"), LONG)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_where_the_folder_takes_no_other_file_it_is_written_in_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    tmp_path.chmod(0o500)
    try:
        write_file(path, LONG)
        with pytest.raises(PermissionError):
            write_file(tmp_path / "other", LONG)
    finally:
        tmp_path.chmod(0o700)
    assert path.read_bytes() == LONG
