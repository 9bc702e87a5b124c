"""The simulated world: whole nodes in virtual time, on machines and a network with faults.

    clock                          clocks that are right, and clocks that are wrong
    store, call_faults, backend    a store that is slow, fails, or loses its answer after the commit
    tasks, run_log                 tasks that take time, fail, hang or ignore stop requests, and their own log
    options, jobs, rng             the settings, jobs and faults that a seed determines
    machines, node_factory         supervisors, and the real node that they start
    operators, records             simulated operators, who cancel and trigger; a simulated record scheduler
    faults, disturbances           crashes, outages, signals and other faults, and the times of their effects
    history                        the events of one seed, as text
    world                          a whole day with faults, then a healing phase, then the checks

The event loop in virtual time and its processes, which freeze and crash, are in `itinerary.testing`: a test node of our
users runs on them too.

The same seed gives the same history, byte for byte. No module here reads a real clock, waits in real time, or depends
on hashes or addresses.
"""
