"""The laboratory: runs torch's ops, modules and optimizers and writes what they do as `torchfacts/facts.json`.

`measure` is the command. `samples` has the calls to try, `signatures` the names of their arguments, `probe` watches one
call, `reduce` makes one fact of what many calls showed.
"""
