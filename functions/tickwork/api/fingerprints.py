"""What makes two requests the same request (A10): their content, as the client wrote it."""

from __future__ import annotations

import hashlib
import json

from tickwork.api.fields import Body


def fingerprint_of(body: Body, *kept: object) -> str:
    """Identifies what the client asked for, as it asked: the same delay asked twice is the same request. Defaults
    are left out, so that a field added later does not make an old request a new one. `kept`: what of the job as it
    stands belongs to the request too, where there is any."""
    text = body.model_dump_json(exclude_defaults=True)
    if any(kept):
        text += json.dumps(kept, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
