"""The durable inbox behind `ack="first"`: an event is stored and acknowledged, and applied later.

    values, request   what is stored: the event, and the request that told of it
    accept            writes it, in the place of the application, and answers 202
    flow, apply       decide what a worker does, and what becomes of an event. Pure
    workers_async     take events and hand them to an ASGI application
    workers           the same for WSGI, in threads

Postgres only; the tables and statements are in `replayfloor.server.stores.inbox`.
"""
