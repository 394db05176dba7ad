-- Promises: one more row for a payment; this is all that the handler of the `atomic` path writes.
insert into ledger (payment, amount_minor) values (%s, %s)
