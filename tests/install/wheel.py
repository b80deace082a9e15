"""The wheel that scripts/package builds, and programs that run where nothing but an installation of it is."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(folder: Path) -> Path:
    """Build it; where it lies."""
    run = subprocess.run([ROOT / "scripts" / "package", folder], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


class Installed:
    """An environment that has the program, and an empty folder to work in.

    Attributes:
        environment: the virtual environment.
        folder: where commands run; it has nothing to do with the checkout.
    """

    def __init__(self, environment: Path, folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        folder.mkdir(exist_ok=True)
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK_", "VIRTUAL_"))
        }
        kept = [part for part in inherited["PATH"].split(os.pathsep) if not Path(part).is_relative_to(ROOT)]
        self.variables = {**inherited, "PATH": os.pathsep.join([str(environment / "bin"), *kept]), "NO_COLOR": "1"}

    def run(self, *words: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program, as it is typed; its exit code is checked."""
        run = subprocess.run(
            words, cwd=self.folder, env={**self.variables, **variables}, capture_output=True, text=True, timeout=900
        )
        assert run.returncode == code, f"{' '.join(words)}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
        assert "Traceback" not in run.stderr, run.stderr
        return run
