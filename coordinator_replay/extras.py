"""Extras of the package: sets of libraries that only some commands need (``coordinator-replay[audit]``)."""

from importlib import import_module

_EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "delta": "spark",
    "pandas": "audit",
    "numpy": "audit",
    "numba": "audit",
    "sqlglot": "audit",
    "javaproperties": "audit",
    "bokeh": "report",
    "jinja2": "report",
}
"""Extras by the name of the module that is imported."""


def missing_extra(problem: ModuleNotFoundError) -> str | None:
    """Return a sentence that names the extra to install for a missing library; None if no extra brings it."""
    library = (problem.name or "").partition(".")[0]
    extra = _EXTRAS.get(library)
    if extra is None:
        return None
    return f"this needs {library}, which is not installed: pip install 'coordinator-replay[{extra}]' brings it" + (
        ", or a platform's own Spark" if extra == "spark" else ""
    )


def require_spark() -> None:
    """Import Spark, before a command imports other libraries of an audit.

    If all these libraries are missing, the error then names the extra ``spark``, which brings all of them.

    Raises:
        ModuleNotFoundError: there is no Spark.
    """
    import_module("pyspark")
