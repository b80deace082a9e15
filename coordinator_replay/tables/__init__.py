"""The table contract as data: what ``schemas/tables`` declares, as values that other rooms build schemas from."""
