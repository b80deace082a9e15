"""Conversion of SVG pictures to PNG.

A Chromium on this machine draws the picture, because a browser finds a font for every writing system.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from coordinator_replay.errors import UsageError, writing

VARIABLE = "CHROMIUM"
NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)

_SIZE = re.compile(r'<svg [^>]*?width="(\d+)" height="(\d+)"')
_SHARPNESS = 2
"""Pixels of the picture for each pixel of the drawing, so that letters stay sharp in a document."""

_MOST_SECONDS = 120


def find_chromium() -> str | None:
    """Return the command of a Chromium: the value of CHROMIUM, or the path of a program with a usual name.

    Return None if there is no such program.
    """
    named = os.environ.get(VARIABLE)
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def write_png(svg: str, path: Path) -> None:
    """Write an SVG picture as PNG.

    Raises:
        UsageError: no Chromium is installed, Chromium fails, or the file can't be written.
    """
    browser = find_chromium()
    if browser is None:
        raise UsageError(
            f"{path}: a Chromium draws PNG, and none is on this machine: install one, name it in {VARIABLE}, or "
            f"write {path.with_suffix('.svg')}"
        )
    with tempfile.TemporaryDirectory(prefix="coordinator-replay-") as folder, writing(path):
        source, target = Path(folder, "picture.svg"), Path(folder, "picture.png")
        source.write_text(svg, encoding="utf-8", errors="replace")
        _draw(browser, source, target, _size_of(svg))
        shutil.copyfile(target, path)


def _size_of(svg: str) -> tuple[str, str]:
    """Return the attributes ``width`` and ``height`` of a picture's ``svg`` element.

    >>> _size_of('<svg xmlns="…" width="1200" height="700" viewBox="0 0 1200 700">')
    ('1200', '700')
    """
    ((width, height), *_) = _SIZE.findall(svg)
    return width, height


def _draw(browser: str, source: Path, target: Path, size: tuple[str, str]) -> None:
    # Only root needs to do without the sandbox. The browser draws our own picture, which has no script.
    as_root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    command = [
        *(browser, "--headless", "--disable-gpu", "--hide-scrollbars", *as_root),
        f"--user-data-dir={source.parent / 'profile'}",
        f"--force-device-scale-factor={_SHARPNESS}",
        f"--window-size={','.join(size)}",
        f"--screenshot={target}",
        source.as_uri(),
    ]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=_MOST_SECONDS, check=False)  # noqa: S603 - see above
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise UsageError(f"{browser} could not draw the picture ({problem}): write SVG instead") from problem
    if not target.exists():
        said = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise UsageError(f"{browser} could not draw the picture ({said[0][:200]}): write SVG instead")
