"""Where the definitions lie: inside the installed package, or beside it in a checkout."""

from functools import cache
from pathlib import Path

from coordinator_replay.errors import DefinitionError


@cache
def schemas_folder() -> Path:
    """The folder that holds ``records/`` and ``tables/``.

    Raises:
        DefinitionError: neither place has it; the installation is broken.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "schemas", package.parent / "schemas"):
        if (folder / "records").is_dir():
            return folder
    raise DefinitionError("the definitions under schemas/ are missing: install the package again")
