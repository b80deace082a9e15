"""The folder ``schemas`` with the definitions of tables and of Kafka's records.

The folder is inside the installed package, or next to the package in a checkout. On a cluster, the package may be a zip
file that Spark has sent to the workers. The definitions are then read from the zip file, without unpacking it.
"""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from coordinator_replay.errors import DefinitionError


@cache
def schemas_folder() -> Traversable:
    """Return the folder ``schemas``, which has the folders ``records`` and ``tables``.

    Raises:
        DefinitionError: the folder is neither inside the package nor next to it, so the installation is broken.
    """
    for folder in (files("coordinator_replay") / "schemas", Path(__file__).resolve().parents[1] / "schemas"):
        if (folder / "records").is_dir():
            return folder
    raise DefinitionError("the definitions under schemas/ are missing: install the package again")


def schema_files(folder: str, ending: str) -> list[Traversable]:
    """Return the files of a folder of ``schemas/``, sorted by name.

    Args:
        folder: path of the folder in ``schemas/``.
        ending: the end of the files' names.
    """
    files = (file for file in schemas_folder().joinpath(*folder.split("/")).iterdir() if file.name.endswith(ending))
    return sorted(files, key=lambda file: file.name)
