"""Receipts whose `atomic` handlers write through SQLAlchemy or Django. Import the module you need.

The protocol (claims, renewals) runs on connections of the receipts' own, so that handlers that hold
every connection of an application's pool cannot keep a key from being claimed or a lease from
being renewed. Only the handler's transaction is the framework's, and the receipt is finished in it.
"""
