"""Imported by the process from which workers are forked: what the first seeds would load, compile and adapt
to is there before them. (The interpreter specializes what it has run often.)"""

from __future__ import annotations

import gc

from barnabas.sim.run import play_seed

SEEDS = 3


for _seed in range(SEEDS):
    play_seed(_seed)
gc.freeze()  # pages that are shared with the workers stay so
