"""Known forms of credentials in texts of others, taken out before a text is kept or shown where people read it.

Owns the forms, and the names that credentials have. Protects: what somebody has pasted into a reason, a name or a URL
by mistake does not live on in the audit, nor in what the API shows of a job. What has no known form is not found:
payloads, where secrets belong least and lie most, are kept out of the audit altogether, and their teams mark what is
secret in them (`hiding`).
"""

from __future__ import annotations

import re

MASK = "***masked***"
"""Nobody writes it by chance: so it is known when it is sent back."""

_FORMS = re.compile(
    "|".join(
        (
            r"tw_[a-z0-9][a-z0-9._-]{0,62}_[0-9A-Za-z]{49}",  # ours
            r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
            r"\bgh[pousr]_[0-9A-Za-z]{36,251}\b|\bgithub_pat_[0-9A-Za-z_]{22,255}\b",
            r"\bglpat-[0-9A-Za-z_-]{20,64}",
            r"\bxox[abeprs]-[0-9A-Za-z-]{10,250}",
            r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{10,250}",
            r"(?<=hooks\.slack\.com/services/)[0-9A-Za-z_/-]{10,250}",
            r"\bAIza[0-9A-Za-z_-]{35}",
            r"\beyJ[0-9A-Za-z_-]{8,4000}\.[0-9A-Za-z_-]{8,4000}\.[0-9A-Za-z_-]{0,4000}",  # a JWT
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*",
        )
    ),
    re.DOTALL,
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)[0-9a-z+/=._~-]{8,4000}")
_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)(['\"]?\s*[=:]\s*['\"]?)[^\r\n'\"]{1,4000}")
"""Of these the whole line: whatever its scheme, what follows is a credential."""
_USER = re.compile(r"(://)(?:[^\s/@:?#]{0,256}:[^\s/?#]{1,256}|[^\s/@:?#]{16,256})(@)")
"""A password, up to the last @ of its host; or what is too long for a name."""
_NAME = (
    r"(?:[a-z0-9]{1,20}[_-]){0,4}[a-z0-9]{0,20}"
    r"(?:(?:access|api|private|secret)[_-]?key|auth|passw(?:or)?d|passphrase|pwd|secret|sig(?:nature)?|token)"
)
_NAMED = re.compile(
    rf"(?i)\b({_NAME})(['\"]?\s*[=:]\s*)(?:\"[^\"]{{1,4000}}\"?|'[^']{{1,4000}}'?|[^\s&,;'\"]{{1,4000}})"
)
_WHOLE_NAME = re.compile(rf"(?i){_NAME}|(?:proxy-)?authorization|(?:set-)?cookie")


def masked(text: str) -> str:
    """The text with each credential of a known form replaced by `***masked***`."""
    text = _FORMS.sub(MASK, text)
    text = _HEADER.sub(rf"\1\2{MASK}", text)
    text = _BEARER.sub(rf"\1\2{MASK}", text)
    text = _USER.sub(rf"\1{MASK}\2", text)
    return _NAMED.sub(rf"\1\2{MASK}", text)


def is_credentials_name(name: str) -> bool:
    """Whether what has this name, in a header or an object, is a credential by that alone."""
    return _WHOLE_NAME.fullmatch(name) is not None
