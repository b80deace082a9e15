"""Both forms of the compiled functions, for tests that ought to hold for either."""

import pytest

from coordinator_replay.log import bulk_writer, checksum, header, record_batch

ENTRY_POINTS = [(header, "hop"), (checksum, "first_mismatch"), (record_batch, "scan"), (bulk_writer, "encode")]
INLINED = [
    (header, ("_int16", "_uint32", "_int32", "_int64")),
    (record_batch, ("_varint", "_long_varint", "_after", "_after_headers", "_record", "copy_bytes")),
    (bulk_writer, ("_put_int", "_put_varint", "_put_bytes")),
]


@pytest.fixture(params=["compiled", "plain"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs the test with the compiled functions, then with the same functions as Python runs them."""
    if request.param == "plain":
        for module, name in ENTRY_POINTS:
            monkeypatch.setattr(module, name, getattr(module, name).py_func)
        for module, names in INLINED:
            for name in names:
                monkeypatch.setattr(module, name, getattr(module, name).py_func)
    return str(request.param)
