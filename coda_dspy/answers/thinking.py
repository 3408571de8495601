"""Part a reply into what the model says and what it only thought."""

import re

_TAG = re.compile(r"<(?P<close>/?) ?(?:think|thinking|thought|seed:think) ?>|\[(?P<square>/?)THINK\]", re.IGNORECASE)
# gpt-oss speaks in channels; only `final` is meant for the reader.
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]{0,80}(?:<\|constrain\|>[^<]{0,80})?<\|message\|>", re.IGNORECASE)
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start)\|>", re.IGNORECASE)
# The same format after a tokenizer has dropped the special tokens.
_BARE_CHANNELS = re.compile(r"\Aanalysis(?P<thinking>.*?)assistantfinal(?P<visible>.*)\Z", re.DOTALL)


def strip_thinking(text: str) -> tuple[str, str]:
    """Part a reply into its visible text and its thinking.

    Known are `<think>…</think>` and its relatives (nested, several, any case), a missing opening tag (the chat template
    has written it: all that precedes the closing tag is thinking), a missing closing tag (the reply ended while
    thinking: nothing of that part is visible) and the channels of gpt-oss.

    Args:
        text: The whole reply.

    Returns:
        `(visible, thinking)`. A text without any tag comes back unchanged, with empty thinking.

    Example:
        >>> strip_thinking("17 + 25 = 42</think>Answer: 42")
        ('Answer: 42', '17 + 25 = 42')
    """
    if "<|channel|>" in text.lower():
        return _by_channel(text)
    if bare := _BARE_CHANNELS.match(text):
        return bare["visible"].strip(), bare["thinking"].strip()
    if not _TAG.search(text):
        return text, ""
    return _by_tag(text)


def _by_tag(text: str) -> tuple[str, str]:
    visible: list[str] = []
    thinking: list[str] = []
    depth = position = 0
    for tag in _TAG.finditer(text):
        (thinking if depth else visible).append(text[position : tag.start()])
        position = tag.end()
        if not (tag["close"] or tag["square"]):
            depth += 1
        elif depth:
            depth -= 1
        else:
            thinking += visible
            visible.clear()
    (thinking if depth else visible).append(text[position:])
    return _joined(visible), _joined(thinking)


def _by_channel(text: str) -> tuple[str, str]:
    marks = list(_CHANNEL.finditer(text))
    visible: list[str] = []
    thinking: list[str] = [text[: marks[0].start()] if marks else text]
    stops = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, stop in zip(marks, stops, strict=False):
        body = text[mark.end() : stop]
        end = _CHANNEL_END.search(body)
        (visible if mark[1].lower() == "final" else thinking).append(body[: end.start()] if end else body)
    return _joined(visible), _CHANNEL_END.sub("", _joined(thinking))


def _joined(parts: list[str]) -> str:
    return "\n".join(part.strip() for part in parts if part.strip())
