"""The simulation: whole nodes in virtual time, with injected faults, and a checker that knows the real events.

    loop, processes, clock         virtual time; processes that freeze and crash; clocks that are wrong
    store, call_faults, backend    a store that is slow, fails, or loses its answer after the commit
    tasks, runs                    tasks that take time, fail, hang or ignore stop requests, and their own log
    options, jobs, rng             the settings, jobs and faults that a seed determines
    machines, node_factory         supervisors, and the real node that they start
    operators, records             simulated operators, who cancel and trigger; a simulated record scheduler
    faults                         crashes, outages, signals and other faults
    world, seed_runner             a whole day with faults, then a healing phase, then the checks
    commit_checker, checker        the rules for every commit, and for the end of the day

The same seed gives the same history, byte for byte. No module here reads a real clock, waits in real time, or depends
on hashes or addresses.
"""
