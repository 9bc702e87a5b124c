"""The simulated world: whole nodes in virtual time, with faults, and a checker that reads what really happened.

    loop, processes, clock     virtual time; processes that freeze and crash; clocks that are wrong
    store, fates, backend      a store that is slow, fails, or loses its answer after the commit
    tasks, runs                tasks that take time, fail, hang and are deaf, and the log that they write themselves
    options, dice              what one seed stands for
    machines, binding          supervisors, and the real node as they start it; people, who cancel and trigger
    troubles                   crashes, outages, signals and the rest, as they happen
    world, living              all of it together, for a day; then it heals, and the checker looks
    witness, checker           what must be so at every commit, and in the end

One seed is one history, byte for byte. Nothing in here reads a real clock, waits, or depends on hashes or addresses.
"""
