"""The turn machine: facts in, commands out, no clock and no I/O.

`states` is the table, `facts` the words, `machine` feeds the one with the other; the rest is what the machine asks:
`calls` (the calls of one reply), `answers` (results that the machine gives itself), `replies` (what a reply without calls
means), `notes` (what the model is told), `budget`, `failures`, `repeats`, `past` (what a resumed session still counts),
`context`.
"""
