"""Dispatch: ticks, windows, firing, and the rule that every creator of an item follows."""
