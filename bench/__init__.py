"""Speed, measured beside the peers in the same run.

`python -m bench list`, `python -m bench NAME… [--json] [--quick]`, `python -m bench report [--from FILE]`. Each bench
is a module with a function `run(quick)` that yields `Result`s; `--quick` takes smaller samples of the peers, which are
slow, and where a whole bench takes long, fewer rounds or a smaller herd of both. Times are medians of repeated runs on
whatever machine this is; no test depends on them.
"""
