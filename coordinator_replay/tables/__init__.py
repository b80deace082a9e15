"""The table contract: the definitions in ``schemas/tables`` as data, from which other rooms build schemas."""
