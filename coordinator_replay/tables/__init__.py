"""The table contract: the definitions in ``schemas/tables`` as data, from which the other packages build schemas."""
