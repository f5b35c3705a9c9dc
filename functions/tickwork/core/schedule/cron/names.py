"""The names of months and weekdays, and what people write instead of them.

Owns: which name a word was meant to be. Refuses to know: fields.
Protects: a guess that may be wrong is not made: `lun` is Monday in three languages, and one letter from `sun`.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final

MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAY_NAMES: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_LONG: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december", "sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday",
)  # fmt: skip

#: Two letters, and the names of other languages; none that is a day in one and another day in the next.
_OTHERS: Final = {
    "mon": "mo lu lun lunes lundi lunedi montag seg segunda maandag",
    "tue": "tu tues martes mardi martedi dienstag ter terca dinsdag",
    "wed": "we weds mi mie mier mer miercoles mercredi mercoledi mittwoch qua quarta woensdag",
    "thu": "th thur thurs jue jeu gio jueves jeudi giovedi donnerstag qui quinta donderdag",
    "fri": "fr vie ven vier vend viernes vendredi venerdi freitag sex sexta vrijdag",
    "sat": "sa sab sam sabado samedi sabato samstag sonnabend zaterdag",
    "sun": "su dom dim domingo dimanche domenica sonntag zondag",
    "jan": "ene gen janv enero janvier gennaio januar janeiro januari",
    "feb": "fev fevr febr febrero fevrier febbraio februar fevereiro februari",
    "mar": "mrz marzo maerz maart marco",
    "apr": "abr avr avril abril aprile",
    "may": "mai maj mayo maggio mag mei maio",
    "jun": "juin juni junio giugno giu junho",
    "jul": "juil juli julio luglio lug juillet julho",
    "aug": "ago aout agosto augustus",
    "sep": "sept set septiembre septembre settembre setembro",
    "oct": "okt ott octubre octobre ottobre oktober outubro",
    "nov": "noviembre novembre novembro",
    "dec": "dez dic diciembre decembre dicembre dezember dezembro",
}  # fmt: skip
_MEANT: Final = {word: name for name, words in _OTHERS.items() for word in words.split()}

#: How much of a misspelt long name has to be right.
_LIKENESS: Final = 0.8
_WORD_CHARS_MAX: Final = 12


def meant_name(word: str, names: tuple[str, ...]) -> str | None:
    """The one of `names` that `word` (in lower case) stands for or was surely meant to be, or None."""
    if not names or not word.isalpha() or len(word) > _WORD_CHARS_MAX:
        return None
    if word in names:
        return word
    if word in _MEANT:
        return _MEANT[word] if _MEANT[word] in names else None
    likeness = {long[:3]: _likeness(word, long) for long in _LONG if long[:3] in names}
    best = max(likeness, key=lambda name: likeness[name])
    rivals = [name for name in likeness if name != best and likeness[name] == likeness[best]]
    return best if likeness[best] >= _LIKENESS and not rivals else None


def _likeness(word: str, long: str) -> float:
    """From 0 to 1: how sure it is that `word` stands for the name whose long form is `long`."""
    short = long[:3]
    if word[0] != long[0] or len(word) < 3:
        return 0
    if len(word) == 3:
        return float(sorted(word) == sorted(short))
    if long.startswith(word) or (len(word) == 4 and any(word[:n] + word[n + 1 :] == short for n in range(4))):
        return 1
    return SequenceMatcher(None, word, long).ratio()
