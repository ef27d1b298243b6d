"""Renders real chat templates with transformers, and has our engine render the same.

    chat_templates.py TEMPLATES BUILD

TEMPLATES is a folder of *.jinja files: the source package llama-cpp-python has 70 real ones in
vendor/llama.cpp/models/templates (`pip download --no-deps --no-binary llama-cpp-python llama-cpp-python`). BUILD is a
build folder with tests/test_models. Conversations have system prompts, tools and their results, several turns, thoughts,
parts and odd characters; what transformers refuses, ours must refuse too.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from transformers.utils import chat_template_utils

NOW = 1_700_000_000

ODD = 'Zwölf <|im_start|> "quotes" \\n {{ braces }} {% raw %} 😀 日本語\t\n  lines  \n'
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Weather of a city\nsecond line "x"',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name"},
                    "days": {"type": "integer", "enum": [1, 2, 3]},
                    "unit": {"type": ["string", "null"], "default": None},
                    "nested": {
                        "type": "object",
                        "properties": {"a": {"type": "array", "items": {"type": "number"}}},
                    },
                },
                "required": ["city"],
            },
            "return": {"type": "string", "description": "text"},
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}},
    },
]


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def calls(*functions: tuple[str, Any]) -> list[dict[str, Any]]:
    return [
        {"id": f"call0000{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, (name, arguments) in enumerate(functions)
    ]


def conversations() -> dict[str, list[dict[str, Any]]]:
    system, hi = message("system", "You are helpful."), message("user", "Hi")
    city = {"city": "Bünde", "days": 2, "x": 1.5, "y": None, "z": [True, False]}
    result = message("tool", '{"t": 12}', name="get_weather", tool_call_id="call00000")
    time = message("tool", "12:00", name="now", tool_call_id="call00001")
    thought = message("assistant", "<think>\nhm\n</think>\n\nanswer")
    reasoned = message("assistant", "answer", reasoning_content="because\nso", thinking="t")
    two = calls(("get_weather", {"city": "Rom"}), ("now", {}))
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image"}, {"type": "text", "text": ODD}]
    return {
        "one": [hi],
        "system": [system, hi],
        "turns": [system, hi, message("assistant", "Hello"), message("user", "More")],
        "odd": [system, message("user", ODD), message("assistant", ODD), hi],
        "empty": [message("user", "")],
        "nothing": [],
        "answered": [hi, message("assistant", "Hello")],
        "thought": [hi, thought, hi],
        "reasoned": [hi, reasoned, hi, reasoned],
        "call": [system, hi, message("assistant", "", tool_calls=calls(("get_weather", city))), result, hi],
        "call without content": [hi, message("assistant", None, tool_calls=calls(("get_weather", city))), result],
        "two calls": [hi, message("assistant", "Let me see.", tool_calls=two), result, time],
        "call with text": [hi, message("assistant", "", tool_calls=calls(("get_weather", '{"city": "Rom"}'))), result],
        "parts": [message("user", parts)],
        "two systems": [system, system, hi],
        "two users": [hi, hi],
        "assistant only": [message("assistant", "x")],
        "system only": [system],
        "unknown role": [message("critic", "x")],
        "developer": [message("developer", "d"), hi],
    }


def names() -> list[tuple[str, dict[str, Any]]]:
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    more = [
        {},
        {"enable_thinking": False},
        {"documents": [{"title": "T", "text": "body"}, {"title": "U", "text": "two"}], "reasoning_effort": "high"},
    ]
    every = itertools.product(conversations().items(), (None, TOOLS), (False, True), more)
    return [
        (
            f"{name}, {'tools' if tools else 'no tools'}, {prompt}, {', '.join(extra)}",
            {"messages": chat, "tools": tools, "documents": None, "add_generation_prompt": prompt, **tokens, **extra},
        )
        for (name, chat), tools, prompt, extra in every
    ]


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> FixedTime:
        return cls.fromtimestamp(NOW, tz)


def rendered(source: str, values: dict[str, Any]) -> str | None:
    try:
        return chat_template_utils._compile_jinja_template(source).render(**json.loads(json.dumps(values)))
    except Exception:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("templates", type=Path)
    parser.add_argument("build", type=Path)
    arguments = parser.parse_args()
    files = sorted(arguments.templates.glob("*.jinja"))
    if not files:
        raise SystemExit(f"There is no *.jinja in {arguments.templates}.")
    chat_template_utils.datetime = FixedTime
    count = refused = 0
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as cases:
        for file in files:
            source = file.read_bytes().decode()
            for name, values in names():
                text = rendered(source, values)
                count += 1
                refused += text is None
                case = {"name": f"{file.name}: {name}", "template": source, "names": values, "now": NOW, "text": text}
                cases.write(json.dumps(case, ensure_ascii=False) + "\n")
        cases.flush()
        print(f"{len(files)} templates, {count} renderings, {refused} of them refused by transformers", flush=True)
        command = [str(arguments.build / "tests" / "test_models"), "--gtest_filter=Jinja.RendersRealTemplates"]
        raise SystemExit(subprocess.run(command, env=os.environ | {"FASTKERNELS_CHAT_CASES": cases.name}).returncode)


if __name__ == "__main__":
    main()
