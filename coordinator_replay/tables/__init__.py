"""The table definitions of ``schemas/tables`` as data, from which the other packages build schemas."""
