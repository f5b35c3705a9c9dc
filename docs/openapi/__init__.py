"""The OpenAPI document: generated from the table of routes, with examples that the API itself has answered."""
