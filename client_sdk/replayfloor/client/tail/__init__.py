"""`replayfloor tail report`: how long after their first attempt operations are still sent.

That distribution is what a provider's retention has to cover. It is read from journals and from
JSON lines of several processes (`sources`), put together per operation (`sightings`, `scratch`),
measured (`measure`, `report`) and shown (`text`, `machine`, `page`). Nothing is ever sent, and no
journal is changed.
"""
