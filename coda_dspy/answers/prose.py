"""Find a quantity or a formula in prose, or nothing where there is more than one reading."""

import re
from typing import NamedTuple

from coda_dspy.answers import latex, tidy
from coda_dspy.answers.declared import first_sentence
from coda_dspy.answers.numbers import as_fraction, without_grouping

_NUMBER = r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)"
_AMOUNT = rf"(?:{_NUMBER}(?: \d+)?/\d+|{_NUMBER})"
_GLUED = r"(?:%|°|cm|mm|km/h|km|kg|mg|ml|mL|mph|kph|lbs?|ft|in|hrs?|min|m/s|m|g|h|s|L|am|pm)"
_QUANTITY = re.compile(
    rf"(?<![\w.,^\\/:{{])(?P<amount>(?:(?<!\d)[-+](?=\S))?(?:[$€£¥₹]\s?)?{_AMOUNT})(?:{_GLUED}|\s?%)?(?![\w^\\/:{{]|[.,]\d|-\d)"
)
_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SINGLE_UNITS = "mghsLNJWKVA"
_NO_UNIT = rf"(?:and|or|to|by|is|are|times|plus|minus|mod|dozen|pairs|{latex.FUNCTIONS})"
_UNIT_WORD = rf"(?!{_NO_UNIT}(?![A-Za-z]))(?:[A-Za-zÀ-ÿ][A-Za-zÀ-ÿ.'-]++|[{_SINGLE_UNITS}](?![A-Za-z]))"
_UNIT = re.compile(
    rf"(?P<amount>[-+]?(?:\\frac\{{\d+\}}\{{\d+\}}|{_AMOUNT}))\s*"
    rf"(?:%|{_GLUED}(?:\^\{{?\d\}}?|[²³])?"
    rf"|(?:(?<=[\s}}])|(?=\\))(?:(?:{_UNIT_WORD}|\\(?:text|mathrm)\{{[^{{}}]*\}})(?:\^\{{?\d\}}?|[²³])?[ /]*){{1,7}})?"
)
_SPAN = re.compile(
    r"\\\((.{1,400}?)\\\)|\\\[(.{1,400}?)\\\]|\$\$(.{1,400}?)\$\$"
    r"|(?<!\\)\$(?![\s$])([^$\n]{1,400}?)(?<![\s\\])\$(?!\d)",
    re.DOTALL,
)
_BETWEEN_SPANS = re.compile(r"\s*(?:,|and|or|und|et|y|,\s*and)?\s*")
_VERB = re.compile(r"(?:\b(?:is|are|be|equals|equal to|get|have|gives|ist|est|es|of)|[=:≈→])\s*\Z", re.IGNORECASE)
_RANGE = re.compile(
    rf"[$€£]?{_AMOUNT}\s*%?\s*(?:-|–|—|\.\.|to|or|bis|oder|ou|o)\s*[$€£]?{_AMOUNT}|\bbetween\b.{{1,30}}\band\s+[$€£]?{_AMOUNT}",
    re.IGNORECASE,
)
_ARROW = re.compile(r"(?:→|⇒|=>|\\(?:Rightarrow|rightarrow|implies|to)(?![A-Za-z]))")
_ASIDE = re.compile(
    r"(?<!\s)(?:\s++\((?=[^()]*(?:[A-Za-z]{3}|=))[^()]*\)?"
    r"|(?:\s*+,)?\s++(?:because|since|as|so|which|where|weil|car|porque)\s.*)"
)
_OPENER = re.compile(r"\s*(?:(?:[-*•>#]+|\d{1,2}[.)]|step \d+[.:)]?)\s+)+", re.IGNORECASE)
_SMALL_TALK = re.compile(
    r"(?:i )?hope (?:this|that|it)|let me know|feel free|if you have|good luck|is there anything", re.IGNORECASE
)
_COMMENT = re.compile(
    r"(?:in)?correct|wrong|right|clear|obvious|shown|given|as|below|above|found|unknown|here|this|that|the|a|an|it|i",
    re.IGNORECASE,
)
_LONGEST_LINE = 1_000


class Reading(NamedTuple):
    """What a declaration in prose says: settled with an answer, settled without (None: no guess), or not settled."""

    settled: bool
    answer: str | None = None


def declared(content: str, form: str) -> Reading:
    """Read what stands behind "Answer:", "the answer is" or "####"."""
    if tidy.is_void(content) or tidy.is_negated(content):
        return Reading(False)
    sentence = _ASIDE.sub("", _ARROW.split(first_sentence(content))[-1]).strip()
    if group := _leading_formula(sentence):
        return Reading(True, group)
    if without_unit(latex.clean(sentence)) is not None or (form != "hash" and _is_formula(sentence)):
        return Reading(True, sentence)
    if form == "hash":
        return Reading(False)
    if not re.search(r"\d|\\[a-zA-Z(\[]|√|π|\$", latex.clean(sentence)):
        return _words(sentence, form)
    rest = content[len(first_sentence(content)) :]
    if form == "label" and re.search(r"\d", rest):  # the working stands here, its result at the end
        return Reading(False)
    answer = _in_sentence(sentence, only=True)
    return Reading(answer is not None or len(rest) <= 2, answer)


def _words(sentence: str, form: str) -> Reading:
    """Up to three words may be an answer ("no real solutions", "east"); behind "is" only one, and no remark."""
    words = latex.clean(sentence).split()
    most = 3 if form == "label" else 1
    if not 1 <= len(words) <= most or any(not word.replace("-", "").isalpha() for word in words):
        return Reading(False)
    if _COMMENT.fullmatch(words[0]):
        return Reading(False)
    return Reading(True, " ".join(words))


def closing(text: str) -> str | None:
    """Read the last line of a text that declares nothing; closing small talk is passed over."""
    lines = [line for line in text.splitlines() if any(char.isalnum() for char in line)]
    while lines and _SMALL_TALK.search(lines[-1]) and not re.search(r"\d", lines[-1]):
        lines.pop()
    if not lines or lines[-1].rstrip().endswith("?"):
        return None
    opener = _OPENER.match(lines[-1])
    line = lines[-1][opener.end() if opener else 0 :].strip()[-_LONGEST_LINE:]
    if without_unit(latex.clean(line)) is not None:
        return line
    sentences = [part for part in re.split(r"(?<=[\w)\]}$%\"'])[.!](?:\s+|\Z)", line) if re.search(r"[\d\\]", part)]
    return _in_sentence(sentences[-1].strip(), only=False) if sentences else None


def without_unit(text: str) -> str | None:
    """The number of a quantity (`18 dollars` → `18`, `2.5 million` → `2500000`); None where it is no quantity."""
    head, _, tail = text.strip().partition(" ")
    scale = _SCALES.get(tail.split(" ")[0].lower()) if tail else None
    value = as_fraction(without_grouping(head)) if scale else None
    if scale and value is not None:
        scaled = value * 10**scale
        return str(scaled) if scaled.denominator == 1 else None
    match = _UNIT.fullmatch(text.strip())
    return without_grouping(match["amount"]) if match else None


def _is_formula(text: str) -> bool:
    if latex.has_words(text) or _RANGE.fullmatch(text):
        return False
    if text.count("{") != text.count("}"):
        return False
    return (
        re.search(r"\d|\\[a-zA-Z]{2}|[√π∞∅]|[A-Za-z]\s*[-+*/^]", text) is not None
        or re.fullmatch(r"[B-HJ-Zb-hj-z]", text) is not None
    )


def _groups(sentence: str) -> list[tuple[int, int, str]]:
    """The formulas between delimiters as (start, end, content); neighbours joined by "and" are one."""
    groups: list[tuple[int, int, str]] = []
    for match in _SPAN.finditer(sentence):
        inside = next(part for part in match.groups() if part is not None)
        if match[0].startswith("$") and re.search(r"\s[A-Za-z]{2,}\s", re.sub(r"\\text\{[^}]*\}", "", inside)):
            continue
        if groups and _BETWEEN_SPANS.fullmatch(sentence[groups[-1][1] : match.start()]):
            start, _, content = groups.pop()
            groups.append((start, match.end(), f"{content}, {inside.strip()}"))
        else:
            groups.append((match.start(), match.end(), inside.strip()))
    return groups


def _leading_formula(sentence: str) -> str | None:
    groups = _groups(sentence)
    if groups and groups[0][0] == 0 and not re.search(r"[\d\\]", sentence[groups[0][1] :]):
        return groups[0][2]
    return None


def _in_sentence(sentence: str, only: bool) -> str | None:
    groups = _groups(sentence)
    if groups:
        return _told_formula(sentence, groups)
    plain = sentence.replace("\\$", "$").replace("\\%", "%")
    if re.search(r"[\\{}_^]", plain):
        return plain if _is_formula(plain) else None
    return _told_number(plain, only)


def _told_formula(sentence: str, groups: list[tuple[int, int, str]]) -> str | None:
    telling = [group for group in groups if re.search(r"\d|\\frac|\\sqrt|\\pi", group[2])]
    if not telling or re.search(r"\d", sentence[telling[-1][1] :]):
        return None
    start, _, content = telling[-1]
    told = _VERB.search(sentence[:start]) or "=" in content
    return content if told or len(telling) == 1 else None


def _told_number(sentence: str, only: bool) -> str | None:
    quantities = list(_QUANTITY.finditer(sentence))
    if not quantities or any(match.end() >= quantities[-1].end("amount") for match in _RANGE.finditer(sentence)):
        return None
    last = quantities[-1]
    before, after = sentence[: last.start()].rstrip(), sentence[last.end() :]
    if re.search(r"\d", after) or re.match(r"\s*(?:[-+*/×÷=<>]|(?:hundred|thousand|million|billion|dozen)\b)", after):
        return None
    told = _VERB.search(before)
    listed = re.search(r"(?:\b(?:and|or|und|et|y)|,)\Z", before) is not None
    if re.search(r"(?:[-+*/×÷<>]|\bnot)\Z", before) or (len(quantities) > 1 and not told and (only or listed)):
        return None
    return last["amount"]
