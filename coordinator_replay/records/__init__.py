"""Key and value bytes of coordinator records, read into typed columns by the definitions in ``schemas/records``."""
