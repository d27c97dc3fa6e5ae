"""Thin shells around the engine: they watch a hub, have the engine decide, and write what it decided.

A controller never trusts an event to tell it what to do: an event only says what to look at again, and what is found
then is compared with what should be. So it does not matter how often, how late or in which order events come, or where
an earlier process stopped.
"""
