"""Actions of the dashboard: each has a form, a sentence, and one call of `operations.operator` (U10, Q2).

    definitions  the actions: their titles, explanations and effects
    targets      the job or occurrence of an action
    form         the fields of a form, kept when the form is rejected
    backfills    backfills that run in the background
    flash        a message that is shown once, on the next page

Every form carries an idempotency key that was created with it: a form that is sent twice makes one change.
"""
