"""Records: units of business work that are known only by their events (SPEC E), picked up, called back and verified.

    kinds, settings, quiet      what may be said of a record; the numbers that govern a desk; when it is quiet
    projection, deciding        what is so, read off the events; what a cycle does about it

These decide, and are pure: no I/O, no clock.
"""
