"""WET: an allowed call becomes a result.

One module a tool, its words for the model in a `.md` file beside it. `registry` knows them, `builtin` lists them.
"""
