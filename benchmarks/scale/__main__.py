"""`python -m benchmarks.scale`: see `loads`."""

from benchmarks.scale.loads import main

main()
