"""Deciding: plain functions over plain values. No clock, no network, no environment, no randomness."""
