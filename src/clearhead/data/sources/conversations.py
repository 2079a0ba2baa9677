"""Records that hold prompts with answers: chats, instructions, and two fields of usual names."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clearhead.data.pair import Pair
from clearhead.errors import DataError

PROMPT, ANSWER = "prompt", "answer"
# Fields that hold a chat, and the usual names of who speaks and what is said.
CHATS = ("messages", "conversations", "conversation")
TURN_NAMES = (("role", "content"), ("from", "value"))
# Roles, as the template for chats names them; others are named as they are.
ROLES = {"user": "User", "human": "User", "assistant": "Assistant", "gpt": "Assistant", "model": "Assistant"}
SYSTEM = ("system", "developer")
CHAT_TEMPLATE = "User: {prompt}\nAssistant: {answer}"
# Stanford Alpaca's words (Taori et al. 2023).
INSTRUCTION_TEMPLATE = "### Instruction:\n{prompt}\n\n### Response:\n{answer}"
INPUT = "\n\n### Input:\n"
# Fields of a prompt and its answer, with the template that they are usually set into.
FIELDS = {
    ("prompt", "completion"): "{prompt}{answer}",
    ("prompt", "answer"): "{prompt}\n{answer}",
    ("prompt", "response"): "{prompt}\n{answer}",
    ("question", "answer"): "Question: {prompt}\nAnswer: {answer}",
    ("instruction", "output"): INSTRUCTION_TEMPLATE,
    ("instruction", "response"): INSTRUCTION_TEMPLATE,
}
# What an instruction is about, where it has an object.
INPUTS = ("input", "context")


@dataclass(frozen=True)
class Chat:
    """Turns of a user and an assistant; every turn of the assistant answers all that was said before it."""

    field: str
    template = CHAT_TEMPLATE

    @property
    def text_field(self) -> str:
        """What to name to read the whole record as text."""
        return f"{self.field}.content"

    def pairs(self, where: str, record: Mapping[str, Any]) -> Iterator[Pair]:
        said, begins = "", ""
        for role, text in _turns(where, record, self.field):
            if role in SYSTEM:
                begins += f"{text}\n\n"
            elif ROLES.get(role) == "Assistant" and said:
                yield Pair(begins + said.removeprefix("User: "), text)
            if role not in SYSTEM and (said or ROLES.get(role) != "Assistant"):
                said += ("\n" if said else "") + f"{ROLES.get(role, role.capitalize())}: {text}"

    def turns(self, where: str, record: Mapping[str, Any]) -> Iterator[Pair]:
        """Each turn of the user with the answer to it, without what was said before."""
        question = None
        for role, text in _turns(where, record, self.field):
            if ROLES.get(role) == "Assistant" and question is not None:
                yield Pair(question, text)
            question = text if ROLES.get(role) == "User" else None


@dataclass(frozen=True)
class Fields:
    """A prompt and its answer in two fields; an instruction may have an input in a third."""

    prompt: str
    answer: str
    inputs: tuple[str, ...] = ()

    @property
    def template(self) -> str:
        return FIELDS[self.prompt, self.answer]

    @property
    def text_field(self) -> str:
        """What to name to read the whole record as text."""
        return "+".join((self.prompt, *self.inputs, self.answer))

    def pairs(self, where: str, record: Mapping[str, Any]) -> Iterator[Pair]:
        prompt, answer = (_text(where, name, record.get(name)) for name in (self.prompt, self.answer))
        given = [_text(where, name, record.get(name)) for name in self.inputs]
        yield Pair(INPUT.join([prompt, *filter(str.strip, given)]), answer)


PromptForm = Chat | Fields


def form_of(record: Collection[str]) -> PromptForm | None:
    """How a record with these fields holds prompts with answers; None if it holds none."""
    # The members of a nested field are named with a dot.
    outer = {name.partition(".")[0] for name in record}
    if chat := next((name for name in CHATS if name in outer), None):
        return Chat(chat)
    found = next((names for names in FIELDS if {*names} <= {*record}), None)
    if found is None:
        return None
    inputs = next(((name,) for name in INPUTS if name in record), ())
    return Fields(*found, inputs if found[0] == "instruction" else ())


def _turns(where: str, record: Mapping[str, Any], field: str) -> Iterator[tuple[str, str]]:
    """Who speaks and what is said, turn by turn."""
    turns = record.get(field)
    if not isinstance(turns, list):
        raise _no_chat(where, field, turns)
    for turn in turns:
        names = next((names for names in TURN_NAMES if isinstance(turn, dict) and {*names} <= {*turn}), None)
        if names is None or not isinstance(turn[names[0]], str):
            raise _no_chat(where, field, turn)
        content = turn[names[1]]
        if isinstance(content, list):  # parts, of which some may be images
            content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
        yield turn[names[0]].casefold(), _text(where, f"{field}.{names[1]}", content)


def _no_chat(where: str, field: str, value: Any) -> DataError:
    shown = json.dumps(value, ensure_ascii=False, default=str)[:40]
    form = '[{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]'
    return DataError(f"{where}: '{field}' has {shown}; write {form}")


def _text(where: str, name: str, value: Any) -> str:
    """A value as text; a missing one is empty, and so left out."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: field '{name}' is {json.dumps(value, default=str)[:40]}, not text")
    return value
