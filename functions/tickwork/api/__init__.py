"""The HTTP API: pydantic models in, flows in the middle, JSON or RFC 9457 problem documents out."""
