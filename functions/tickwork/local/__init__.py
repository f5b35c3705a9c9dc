"""Everything on one machine: the embedded AWS endpoint, the API, the windows, a demo (`tickwork dev`).

The processes run the same flows over the same adapters as the deployed functions; only their triggers are local.
"""
