"""Deterministic simulation: one seed draws and replays whole lives of a run, on a virtual clock, with faults.

The code of a run is the real one, the database too. Simulated are the clocks, the loop that the client runs in, and the
network below it. ``python -m tests.simulation`` runs seeds, replays one and shrinks one.
"""
