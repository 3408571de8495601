"""How a role's question becomes a prompt, and its reply a value: the plain adapter, and lenient section markers.

DSPy's own markers cost small models most of their skill, so the default asks in plain words and takes the reply as
it is (DESIGN.md, decision 6). Both are DSPy adapters: optimizers, demos and traces work through them unchanged.
"""

import re
from typing import Any

import dspy
from dspy.adapters.base import Adapter
from dspy.adapters.chat_adapter import ChatAdapter
from dspy.utils.exceptions import AdapterParseError

from coda_dspy.answers import strip_thinking
from coda_dspy.errors import UserError

_MARKER = re.compile(r"\[\[ ## \w+ ## \]\]")

ENDING = "ending"  # the input that says how the reply has to end; it closes the message


class PlainAdapter(Adapter):
    """Ask in natural words, take the reply's visible text as the one output.

    A message is the question, the further inputs under their names, the instructions, and the line that says how the
    reply ends. There is no system message: every role's prompt of one question begins with the same text, so that
    the prefix cache of a server is hit across plans, attempts and roles. A reply may be begun for an engine that
    continues one (`coda_begun` in the context); its beginning is put back in front of what the engine adds.
    """

    def format(self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        shown = [demo for demo in demos if _output_of(signature) in demo]
        messages = self.format_demos(signature, shown)
        messages.append({"role": "user", "content": self.format_user_message_content(signature, inputs)})
        begun = dspy.settings.get("coda_begun")
        return [*messages, {"role": "assistant", "content": begun}] if begun else messages

    def format_user_message_content(
        self,
        signature: Any,
        inputs: dict[str, Any],
        prefix: str = "",
        suffix: str = "",
        main_request: bool = False,
    ) -> str:
        first, *others = signature.input_fields
        named = [
            f"{_title(signature, name)}:\n{_without_headings(signature, name, str(inputs[name]))}"
            for name in others
            if name != ENDING and inputs.get(name)
        ]
        # One paragraph: a small model that reads the ending on its own gives the answer without any working.
        request = f"{self.format_task_description(signature)} {inputs.get(ENDING) or ''}"
        parts = [prefix, _without_headings(signature, first, str(inputs.get(first, ""))), *named, request, suffix]
        return "\n\n".join(part.strip() for part in parts if part.strip())

    def format_assistant_message_content(
        self, signature: Any, outputs: dict[str, Any], missing_field_message: str | None = None
    ) -> str:
        return str(outputs.get(_output_of(signature)) or missing_field_message or "")

    def format_task_description(self, signature: Any) -> str:
        return str(signature.instructions)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        visible, _ = strip_thinking(completion)
        if not visible.strip():
            raise _no_text(self, signature, completion)
        begun = dspy.settings.get("coda_begun") or ""
        return {_output_of(signature): (visible if visible.startswith(begun) else begun + visible).strip()}


class SectionAdapter(ChatAdapter):
    """DSPy's section markers, read leniently: a reply that misses its marker is taken as it is, for no second call.

    DSPy's own fallback asks again through JSON, which doubles the calls and turns `\\frac` into a form feed.
    """

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)

    def format(self, signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]) -> list[dict[str, Any]]:
        harmless = {name: str(value).replace("[[ ##", "[ [ ##") for name, value in inputs.items()}
        messages: list[dict[str, Any]] = super().format(signature, demos, harmless)
        return messages

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        visible, _ = strip_thinking(completion)
        output = _output_of(signature)
        text = _after_marker(output, visible)
        if not text:
            raise _no_text(self, signature, completion)
        return {output: text}


ADAPTERS: dict[str, type[Adapter]] = {"plain": PlainAdapter, "sections": SectionAdapter}


def adapter_named(name: str) -> Adapter:
    """The adapter of a profile: `plain` or `sections`.

    Raises:
        UserError: There is no adapter of that name.
    """
    if name not in ADAPTERS:
        raise UserError(f"adapter {name!r} does not exist; choose one of: {', '.join(ADAPTERS)}")
    return ADAPTERS[name]()


def _output_of(signature: Any) -> str:
    outputs = list(signature.output_fields)
    if len(outputs) != 1:
        raise UserError(f"{signature.__name__} has {len(outputs)} outputs; these adapters need exactly one text output")
    return str(outputs[0])


def _no_text(adapter: Adapter, signature: Any, completion: str) -> AdapterParseError:
    message = "The reply holds no text outside its thinking."
    return AdapterParseError(type(adapter).__name__, signature, completion, message=message)


def _title(signature: dspy.Signature, name: str) -> str:
    extra = signature.input_fields[name].json_schema_extra or {}
    title = str(extra.get("desc") or name)
    return name.replace("_", " ").capitalize() if title.startswith("${") else title


def _without_headings(signature: Any, own: str, text: str) -> str:
    """A text whose lines are not taken for the headings of the message's other parts: it may be a stranger's."""
    others = [_title(signature, name) for name in list(signature.input_fields)[1:] if name not in (own, ENDING)]
    if not others:
        return text
    heading = "|".join(map(re.escape, others))
    return re.sub(rf"^(?=(?:{heading}):[ \t]*$)", "> ", text, flags=re.MULTILINE)


def _after_marker(name: str, text: str) -> str:
    """What follows the field's last marker; without one, the last heading that looks like its name (`## Solution`).

    Earlier ones may be quoted from the question.
    """
    exact, loose = rf"^[ \t]*\[\[ ## {name} ## \]\]", rf"^[ \t#*\[_-]*{name}[ \t#*\]:_-]*$"
    found = (list(re.finditer(marker, text, re.MULTILINE | re.IGNORECASE)) for marker in (exact, loose))
    *_, last = [None, *next(filter(None, found), [])]
    body = _MARKER.split(text[last.end() :] if last else text)[0]
    return body.strip() or _MARKER.sub("", text).strip()
