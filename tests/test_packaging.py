"""The package list, the wheel, and how the rooms may import each other."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("backends", "docs_check", "lintcfg", "matrix")
#: Which rooms a room may import, beside itself.
MAY_IMPORT = {
    "matrix": set(),
    "docs_check": {"matrix"},
    "backends": {"matrix"},
    "lintcfg": {"matrix", "docs_check", "backends"},
}


def setuptools_config() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_every_package_folder_is_listed() -> None:
    config = setuptools_config()
    on_disk = {
        "attn_lint." + init.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for folder in ROOMS
        for init in (ROOT / folder).rglob("__init__.py")
    }
    assert set(config["packages"]) == on_disk  # type: ignore[call-overload]


def test_the_wheel_holds_every_file_of_the_rooms(tmp_path: Path) -> None:
    pytest.importorskip("build")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and "network" in done.stderr.lower():
        pytest.skip("no network to fetch the build backend")
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"attn_lint/{path.relative_to(ROOT).as_posix()}"
        for room in ROOMS
        for pattern in ("*.py", "*.yaml", "*.md", "py.typed")
        for path in (ROOT / room).rglob(pattern)
    }
    assert wanted <= names
    assert any(name.startswith("attn_lint/matrix/compiled/") for name in names)
    assert all(name.startswith("attn_lint") for name in names), "nothing generic at the top level"


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a module imports, by relative import."""
    depth = len(path.relative_to(ROOT).parts) - 1
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == depth + 1 and node.module:
            rooms.add(node.module.split(".")[0])
        if isinstance(node, ast.ImportFrom) and node.level == depth + 1 and not node.module:
            rooms.update(alias.name for alias in node.names)
        assert not (
            isinstance(node, ast.ImportFrom)
            and node.level == 0
            and (node.module or "").split(".")[0] in ROOMS
        ), f"{path}: rooms are imported relatively"
    return rooms & set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_dependencies_between_rooms_point_one_way(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        assert imported_rooms(path) <= MAY_IMPORT[room], path
