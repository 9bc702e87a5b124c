"""How hard the faults are: FAULTS_SCALE=1, the default, is a quick look; 10 is what the project promises to survive.

scale       1        10
kills       20       200      for each durable store
races       3        100      rounds, for each store
"""

from __future__ import annotations

import os
import random
from typing import Final

__all__ = ["IS_FULL", "KILLS", "SCALE", "SEED", "dice"]

SCALE: Final = int(os.environ.get("FAULTS_SCALE", "1"))
IS_FULL: Final = SCALE >= 10
KILLS: Final = 20 * SCALE
SEED: Final = int(os.environ.get("FAULTS_SEED", "1"))
"""Moments at which a process is killed come from this; a failing one is printed with the rest of its story."""


def dice(*of: object) -> random.Random:
    """Chance that is the same in each run of one seed: for one thing, and another one for another."""
    return random.Random(f"{SEED} {of}")  # noqa: S311 - nothing here is a secret
