"""Oracles: what cron schedules ought to answer, by programs that share nothing with the engine.

    grammar.py      a plain parser of cron expressions
    zones.py        zones from the tzdata package, and their transitions
    model.py        steps through UTC minute by minute
    dice.py         seeded chance
    generate.py     random expressions over the whole grammar
    scenes.py       windows around transitions, and the cases to try there
    plan.py         how many of them, where
    campaign.py     one scene: the engine beside the model
    libraries.py    cronsim and croniter, so that they cannot hang
    cron*_*.py      why they answer otherwise than we do

Nothing here may import the engine's insides: tests call `itinerary.schedules`, the model calls the standard library.
"""
