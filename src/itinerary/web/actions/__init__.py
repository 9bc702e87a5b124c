"""The actions of the dashboard: each is a form, a sentence, and one call of `operations.operator` (U10, Q2).

    kinds        the actions: what each is called, what it says that it will do, and what it does
    subjects     what an action is about: a job, or an occurrence of one
    typed        what somebody has typed into a form, kept when it is refused
    backfills    backfills that go on while nobody waits for them
    notices      a sentence that is shown once, on the page after

Every form carries a key that was made with it, and the change is entered under that key: sent twice it is one change.
"""
