"""The production flows at the design scale, in virtual time: calls that take as long as AWS says, and its limits.

The other half of the simulator looks for what breaks when things fail; this half for what breaks when there is much.
Nothing fails here but by a limit. `figures` is the table of latencies and limits with their sources, `partitions`
holds each partition key to its units, `ports` are what one process sees, `queues` the queues, the event source and
the workers, `world` puts them together and runs a load. See docs/scale.md.
"""
