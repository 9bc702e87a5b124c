"""The worked examples of the design documents, as tests that a reader can hold beside the text.

docs/requirements.md was merged from five documents, 000 to 004. Each of them works some cases out with numbers: an
outage of 200 hours, waits of one, two and four minutes, a table of messages. Here are those cases, by document:

    test_document_000.py               the central scheduler: settings, states, messages, heartbeats, flushes
    test_document_001.py               its first draft: what the draft has, and the later text has not
    test_document_002.py               the scheduled run index: order, windows, sizes, targets
    test_document_003.py               records: the three flows, the settings, the failures
    test_document_004_schedules.py     tickers, ids, the race of three nodes, keys
    test_document_004_execution.py     retries, strategies, the cascade, the ten steps, overlap, timeouts, the pool
    test_document_004_recovery.py      the five recovery strategies, replay
    test_document_004_updates.py       the three update policies, versions, changed tasks

How to read a test:

- The docstring says which section it holds, in our words. The numbers of the section stand in the test as data.
- The software is the real one, in virtual time: `itinerary_clock` is the fixture that users have for their own tests.
  Where the store matters, the store is real.
- "Our rule" in a docstring says where Itinerary decided otherwise than its source. A statement in brackets says so.
- No test measures elapsed time. Figures of speed are measured by `bench`; a test says which bench has them.
"""
