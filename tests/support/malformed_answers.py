"""Malformed and difficult answers: the text, the repairs, the repaired text and the code."""

from __future__ import annotations

from typing import Any, NamedTuple

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer"},
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": ["string", "null"]}},
        "o": {"type": "object", "properties": {"x": {"type": "string"}}},
        "k": {"type": ["string", "null"]},
    },
    "required": ["a"],
}
KEEP = ("k", "ü-1")
"""The names whose null stays under ``null_as_absent``."""

DEFAULT = ("trim", "fence")
REASONING = ("trim", "reasoning", "fence")
TRIM, FENCE, PROSE, COMMA, NULLS = ("trim",), ("fence",), ("prose",), ("trailing_comma",), ("null_as_absent",)
ALL = ("null_as_absent", "trailing_comma", "prose", "fence", "trim")


class Answer(NamedTuple):
    """An answer of a model, and its expected result."""

    text: str | None
    repairs: tuple[str, ...]
    repaired: str | None
    code: str | None


def same(text: str, code: str | None, repairs: tuple[str, ...] = DEFAULT) -> Answer:
    """An answer that the repairs don't change."""
    return Answer(text, repairs, text, code)


def into(text: str, repaired: str, code: str | None = None, repairs: tuple[str, ...] = DEFAULT) -> Answer:
    """An answer that the repairs change."""
    return Answer(text, repairs, repaired, code)


BAD = "BAD_JSON"
GOOD = '{"a":1}'
FULL = '{"a": 12, "s": "x\\"\\u00e9", "l": ["p", null], "o": {"x": "y"}, "t": true, "n": -1.5e3}'


def nested(depth: int, inner: str = "1") -> str:
    """Arrays inside each other, in an ignored property: ``depth`` counts the object, too."""
    return '{"a":1,"z":' + "[" * (depth - 1) + inner + "]" * (depth - 1) + "}"


def objects(depth: int) -> str:
    """Objects inside each other."""
    return '{"a":1,"z":' + '{"z":' * (depth - 1) + "1" + "}" * (depth - 1) + "}"


CUTS = {
    f"cut after {place} characters": same(FULL[:place], BAD, ())
    for place in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 14, 15, 16, 17, 18, 19, 20, 23, 24, 27, 31, 33, 34, 37, 39, 42, 43, 46,
                  48, 50, 53, 54, 57, 58, 61, 63, 66, 71, 74, 76, 77, 79, 80)
}  # fmt: skip
"""Cut in the middle: in names, strings, escapes, numbers and words, behind every kind of mark."""

NUMBERS = {
    **{
        f"the number {number}": same(f'{{"a":{number}}}', None)
        for number in ("0", "-0", "10", "-1", "1.0", "1E5", "1e+2", "10e-1", "0e0", "0.0E-0")
    },
    **{
        f"the number {number} is none": same(f'{{"a":{number}}}', BAD)
        for number in ("01", "-01", "00", "+1", ".5", "1.", "-", "--1", "1e", "1e+", "1.e1", "0x1F", "1_000", "1,000",
                       "1 000", "Infinity", "-Infinity", "inf", "NaN", "nan", "1f", "0b1", "1e1.5", "\u0661", "\uff11",
                       "1/2", "$1", "1%")
    },
    "beyond doubles": same('{"a":1e400}', "OUT_OF_RANGE"),
    "beyond doubles, negative": same('{"a":-1E+400}', "OUT_OF_RANGE"),
    "beyond doubles in an ignored property": same('{"a":1,"z":[1e400,-1e999999,2]}', None),
    "just beyond doubles in an ignored property": same('{"a":1,"z":17976931348623159e292}', None),
    "the largest double": same('{"a":1,"z":17976931348623157e292}', None),
    "a wide number beside a text that looks like one": same('{"a":1,"z":1e400,"s":"1e400 \\" -1e400"}', None),
    "400 digits": same('{"a":' + "1" * 400 + "}", "OUT_OF_RANGE"),
    "400 digits in an ignored property": same('{"a":1,"z":-' + "1" * 400 + "}", None),
    "a number of 1,000 characters": same('{"a":1,"z":' + "7" * 1000 + "}", None),
    "a number of 1,001 characters": same('{"a":1,"z":' + "7" * 1001 + "}", BAD),
    "a fraction of 1,001 characters": same('{"a":1,"z":0.' + "3" * 999 + "}", BAD),
    "1,001 digits in a text": same('{"a":1,"s":"' + "7" * 1001 + '"}', None),
    "zero as a double": same('{"a":1,"z":0.1e-400}', None),
    "zero as a double, an integer": same('{"a":0.0e-400}', None),
    "a number as text": same('{"a":"5"}', "WRONG_TYPE"),
    "a number in words": same('{"a":"five"}', "WRONG_TYPE"),
    "a fraction": same('{"a":5.5}', "WRONG_TYPE"),
}  # fmt: skip

SYNTAX = {
    "empty": same("", "NO_RESPONSE"),
    "no text": Answer(None, ALL, None, "NO_RESPONSE"),
    "blank": into(" \t\r\n ", "", "NO_RESPONSE"),
    "null": same("null", "NOT_OBJECT"),
    "true": same("true", "NOT_OBJECT"),
    "a number": same("12", "NOT_OBJECT"),
    "a text": same('"{}"', "NOT_OBJECT"),
    "an empty array": same("[]", "NOT_OBJECT"),
    "an array of one object": same('[{"a":1}]', "NOT_OBJECT"),
    "an empty object": same("{}", "MISSING_FIELD"),
    "an object": same(GOOD, None),
    "blanks everywhere": same('{ \t"a"\r\n:\t1 ,\n"l" : [ ] , "o" : { } }', None),
    "the whole object": same(FULL, None),
    "Null": same('{"a":1,"z":Null}', BAD),
    "None": same('{"a":1,"z":None}', BAD),
    "True": same('{"a":1,"z":True}', BAD),
    "undefined": same('{"a":1,"z":undefined}', BAD),
    "an array with undefined": same('{"a":1,"z":[undefined]}', BAD),
    "a word": same("card_arrival", BAD),
    "a word cut": same('{"a":1,"z":nul}', BAD),
    "a word glued": same('{"a":1,"z":truefalse}', BAD),
    "a word and a number glued": same('{"a":1,"z":[true1]}', BAD),
    "single quotes": same("{'a':1}", BAD),
    "an unquoted name": same("{a:1}", BAD),
    "a number as a name": same('{1:1,"a":1}', BAD),
    "null as a name": same('{null:1,"a":1}', BAD),
    "typographic quotes": same("{\u201ca\u201d:1}", BAD),
    "backticks": same("{`a`:1}", BAD),
    "an equals sign": same('{"a"=1}', BAD),
    "a colon too many": same('{"a"::1}', BAD),
    "no colon": same('{"a" 1}', BAD),
    "no value": same('{"a":}', BAD),
    "no value before a comma": same('{"a":,"s":"x"}', BAD),
    "only a name": same('{"a"}', BAD),
    "a member without a name": same('{"a":1,2}', BAD),
    "a semicolon": same('{"a":1;"s":"x"}', BAD),
    "no comma": same('{"a":1 "s":"x"}', BAD),
    "no comma in an array": same('{"a":1,"l":["x" "y"]}', BAD),
    "a member in an array": same('{"a":1,"l":["x":1]}', BAD),
    "a trailing comma": same('{"a":1,}', BAD),
    "a trailing comma in an array": same('{"a":1,"l":["x",]}', BAD),
    "a leading comma": same('{,"a":1}', BAD),
    "two commas": same('{"a":1,,"s":"x"}', BAD),
    "only a comma": same("{,}", BAD),
    "only a comma in an array": same('{"a":1,"l":[,]}', BAD),
    "a hole in an array": same('{"a":1,"l":["x",,"y"]}', BAD),
    "brackets that don't match": same('{"a":1]', BAD),
    "brackets that cross": same('{"a":1,"l":["x"}]', BAD),
    "a bracket too many": same('{"a":1}}', BAD),
    "an array's bracket too many": same('{"a":1}]', BAD),
    "no bracket at the start": same('"a":1}', BAD),
    "members without brackets": same('"a":1', BAD),
    "two values": same("1,2", BAD),
    "two objects": same('{"a":1}{"a":2}', BAD),
    "two objects on two lines": same('{"a":1}\n{"a":2}', BAD),
    "two objects and a comma": same('{"a":1},{"a":2}', BAD),
    "an end that closes a bracket around it": same('{"a":1},0]', BAD),
    "an end that closes and opens brackets around it": same('{"a":1},0],[1', BAD),
    "an end that closes a bracket and a text": same('{"a":1},"00000000000000000000000"],["', BAD),
    "an ellipsis": same('{"a":1, ...}', BAD),
    "text behind": same('{"a":1} done', BAD),
    "text before": same('Sure: {"a":1}', BAD),
    "a full stop behind": same('{"a":1}.', BAD),
    "a comment to the line's end": same('{"a":1 // one\n}', BAD),
    "a comment": same('{"a":/* one */1}', BAD),
    "a comment behind": same('{"a":1}//', BAD),
    "a hash": same('{"a":1 # one\n}', BAD),
    "an XML tag around": same('<answer>{"a":1}</answer>', BAD),
    "YAML": same("a: 1\ns: x", BAD),
    "Python": same("{'a': 1, 's': None}", BAD),
    "a repeated name": same('{"a":1,"a":2}', BAD),
    "a repeated name, the same value": same('{"a":1,"a":1}', BAD),
    "a repeated name spelt with an escape": same('{"a":1,"\\u0061":2}', BAD),
    "a repeated name with an escaped slash": same('{"a":1,"/z":1,"\\/z":2}', BAD),
    "a repeated name, blanks behind one": same('{"a":1,"z":1,"z" :2}', BAD),
    "a repeated name inside": same('{"a":1,"z":{"b":1,"c":0,"b":2}}', BAD),
    "a repeated name deep inside": same('{"a":1,"z":[{"b":1},{"b":[{"c":1,"c":1}]}]}', BAD),
    "a repeated empty name": same('{"a":1,"":1,"":2}', BAD),
    "a repeated name with a colon": same('{"a":1,":z":1,"l":["x",","],":z":2}', BAD),
    "a repeated name with a quote": same('{"a":1,"\\"z":1,"\\"z":2}', BAD),
    "a repeated name beyond ASCII": same('{"a":1,"\u00fc":1,"\\u00FC":2}', BAD),
    "a repeated emoji": same('{"a":1,"\U0001f600":1,"\\ud83d\\ude00":2}', BAD),
    "names that differ in case": same('{"a":1,"A":2}', None),
    "names that differ in their form": same('{"a":1,"\u00fc":1,"u\u0308":2}', None),
    "one name in several objects": same('{"a":1,"o":{"a":1,"x":"y"},"z":[{"a":1},{"a":1}]}', None),
    "an empty name": same('{"a":1,"":2}', None),
    "names in texts": same('{"a":1,"s":"\\"a\\":1,\\"a\\":2"}', None),
    "texts that look like names": same('{"a":1,"l":["a",":","a",":z",","],"s":"a"}', None),
}

STRINGS = {
    **{
        f"a raw {name} in a text": same(f'{{"a":1,"s":"x{char}y"}}', BAD)
        for name, char in {"line break": "\n", "carriage return": "\r", "tab": "\t", "form feed": "\f", "bell": "\a",
                           "escape": "\x1b", "unit separator": "\x1f", "start of heading": "\x01"}.items()
    },
    **{
        f"a {name} between tokens": same(f'{{"a":{char}1}}', BAD)
        for name, char in {"no-break space": "\xa0", "form feed": "\f", "vertical tab": "\v",
                           "zero-width space": "\u200b", "line separator": "\u2028", "ideographic space": "\u3000",
                           "next line": "\x85", "BOM": "\ufeff", "control": "\x01", "delete": "\x7f"}.items()
    },
    "a raw control character in a name": same('{"a":1,"x\ty":1}', BAD),
    "a no-break space behind": same('{"a":1}\xa0', BAD),
    "a line separator behind": same('{"a":1}\u2028', BAD),
    "a form feed before": same('\f{"a":1}', BAD),
    "a BOM": same('\ufeff{"a":1}', BAD),
    "a BOM behind": same('{"a":1}\ufeff', BAD),
    "a BOM in a text": same('{"a":1,"s":"\ufeff"}', None),
    "delete in a text": same('{"a":1,"s":"\x7f\x80\x9f"}', None),
    "line separators in a text": same('{"a":1,"s":"\u2028\u2029\x85"}', None),
    "every escape": same('{"a":1,"s":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uFFFF"}', None),
    "an escaped quote at the end": same('{"a":1,"s":"x\\"}', BAD),
    "a backslash at the end of a text": same('{"a":1,"s":"x\\\\"}', None),
    "a Windows path": same('{"a":1,"s":"C:\\data"}', BAD),
    "a regular expression": same('{"a":1,"s":"\\d+"}', BAD),
    "an escaped single quote": same('{"a":1,"s":"it\\\'s"}', BAD),
    "a hexadecimal escape": same('{"a":1,"s":"\\x41"}', BAD),
    "an octal escape": same('{"a":1,"s":"\\101"}', BAD),
    "an escape of three digits": same('{"a":1,"s":"\\u004"}', BAD),
    "an escape with a sign": same('{"a":1,"s":"\\u+041"}', BAD),
    "an escape with braces": same('{"a":1,"s":"\\u{41}"}', BAD),
    "a capital U": same('{"a":1,"s":"\\U0041"}', BAD),
    "an escaped line break": same('{"a":1,"s":"x\\\ny"}', BAD),
    "an emoji": same('{"a":1,"s":"\U0001f600"}', None),
    "an emoji as escapes": same('{"a":1,"s":"\\ud83d\\uDE00"}', None),
    "a high surrogate": same('{"a":1,"s":"\\ud83d"}', BAD),
    "a high surrogate before a letter": same('{"a":1,"s":"\\ud83dx"}', BAD),
    "a high surrogate before an escape": same('{"a":1,"s":"\\ud83d\\u0041"}', BAD),
    "two high surrogates": same('{"a":1,"s":"\\ud83d\\ud83d\\ude00"}', BAD),
    "a low surrogate": same('{"a":1,"s":"\\ude00"}', BAD),
    "surrogates the wrong way round": same('{"a":1,"s":"\\ude00\\ud83d"}', BAD),
    "a surrogate in a name": same('{"a":1,"\\ud83d":1}', BAD),
    "NUL as an escape": same('{"a":1,"s":"\\u0000"}', None),
    "NUL as an escape in a name": same('{"a":1,"x\\u0000":1}', None),
    "an escaped backslash before u0000": same('{"a":1,"s":"\\\\u0000"}', None),
    "the first character as an escape": same('{"a":1,"s":"\\u0001"}', None),
    "a text not closed": same('{"a":1,"s":"x}', BAD),
    "a text of 1 MB": same('{"a":1,"s":"' + "x" * 1_000_000 + '"}', None),
    "a text of 1 MB not closed": same('{"a":1,"s":"' + "x" * 1_000_000, BAD),
    "1 MB of escapes": same('{"a":1,"s":"' + '\\"' * 500_000 + '"}', None),
    "1 MB of escapes not closed": same('{"a":1,"s":"' + '\\"' * 500_000, BAD, ALL),
    "10,000 elements": same('{"a":1,"z":[' + "1," * 9_999 + "1]}", None),
    "100,000 commas": same('{"a":1,"z":[' + "," * 100_000 + "]}", BAD),
    "100,000 blanks": same('{"a":1' + " " * 100_000 + "}", None, ALL),
    "brackets in a text alone": same('"' + "[{" * 5_000 + '"', "NOT_OBJECT"),
    "brackets in a text not closed": same('"' + "[{" * 5_000, BAD),
    "brackets in a text": same('{"a":1,"s":"' + "[{" * 5_000 + '"}', None),
}  # fmt: skip

DEPTHS = {
    "20 levels": same(nested(20), None),
    "20 levels of objects": same(objects(20), None),
    "250 levels": same(nested(250), None),
    "250 levels of objects": same(objects(250), None),
    "250 levels, the innermost empty": same(nested(249, "[]"), None),
    "251 levels": same(nested(251), BAD),
    "251 levels of objects": same(objects(251), BAD),
    "251 levels, the innermost empty": same(nested(250, "{}"), BAD),
    "500 levels": same(nested(500), BAD),
    "1,000 levels": same(nested(1000), BAD),
    "10,000 levels of objects": same(objects(10_000), BAD),
    "100,000 levels": same("[" * 100_000 + "]" * 100_000, BAD),
    "100,000 brackets that open": same("[" * 100_000, BAD),
    "100,000 braces that open": same('{"a":' * 100_000, BAD, ALL),
    "100,000 brackets that close": same('{"a":1}' + "]" * 100_000, BAD),
    "100,000 brackets that close, then open": same("{}" + "]" * 100_000 + "," + "[" * 100_000 + "1", BAD),
    "300 objects side by side": same('{"a":1,"z":[' + ",".join(["{}"] * 300) + "]}", None),
    "brackets in texts, 300 objects": same('{"a":1,"z":[' + ",".join(['{"b":"[[{"}'] * 300) + "]}", None),
}

THOUGHT = '<think>\nIt is {"a": 2}? No.\n</think>'
REASONINGS = {
    "reasoning": into(f"{THOUGHT}\n\n{GOOD}", GOOD, None, REASONING),
    "reasoning on one line": into(f"<think></think>{GOOD}", GOOD, None, REASONING),
    "reasoning and a fence": into(f" {THOUGHT} ```json\n{GOOD}\n``` ", GOOD, None, REASONING),
    "reasoning not wanted": same(f"{THOUGHT}{GOOD}", BAD),
    "reasoning that does not end": same("<think> " + GOOD, BAD, REASONING),
    "reasoning that does not begin": same(f"No. </think>{GOOD}", BAD, REASONING),
    "reasoning twice": into(f"{THOUGHT}{THOUGHT}{GOOD}", THOUGHT + GOOD, BAD, REASONING),
    "reasoning after the answer": same(GOOD + THOUGHT, BAD, REASONING),
    "reasoning and nothing else": into(THOUGHT, "", "NO_RESPONSE", REASONING),
    "marks of reasoning in a string": same('{"a": 1, "s": "<think></think>"}', None, REASONING),
    "no reasoning": same(GOOD, None, REASONING),
    "no reasoning, blanks": into(f" {GOOD} ", GOOD, None, REASONING),
    "reasoning alone wanted": into(f" {THOUGHT} {GOOD} ", f" {GOOD}", None, ("reasoning",)),
    "reasoning alone, none there": same(f" {GOOD} ", None, ("reasoning",)),
    "no text, reasoning": Answer(None, REASONING, None, "NO_RESPONSE"),
}
FENCES = {
    "a fence": into("```json\n" + GOOD + "\n```", GOOD),
    "a fence without a language": into("```\n" + GOOD + "\n```", GOOD),
    "a fence with CRLF": into("```json\r\n" + GOOD + "\r\n```", GOOD),
    "a fence with blanks around": into(" \n```json \n\n" + GOOD + "\n\n``` \n", GOOD),
    "a fence not wanted": same("```json\n" + GOOD + "\n```", BAD, TRIM),
    "blanks not wanted": same(f" {GOOD}\n", None, ()),
    "blanks and a fence, only the fence wanted": into(f" ```\n {GOOD}\n``` ", GOOD, None, FENCE),
    "blanks, only a fence wanted": same(f" {GOOD} ", None, FENCE),
    "blanks": into(f"\n {GOOD}\t\r\n", GOOD),
    "a no-break space is no blank": same(f"\xa0{GOOD}", BAD),
    "a fence in capitals": into("```JSON\n" + GOOD + "\n```", GOOD),
    "a fence of JSON5": into("```json5\n" + GOOD + "\n```", GOOD),
    "a fence with an attribute": same("```json title=x\n" + GOOD + "\n```", BAD),
    "a fence on one line": same("```json " + GOOD + "```", BAD),
    "a fence not closed": same("```json\n" + GOOD, BAD),
    "a fence not opened": same(GOOD + "\n```", BAD),
    "a fence closed on the last line": into("```json\n" + GOOD + "```", GOOD),
    "an empty fence": into("```json\n```", "", "NO_RESPONSE"),
    "two fences": into(f"```\n{GOOD}\n```\n```\n{GOOD}\n```", f"{GOOD}\n```\n```\n{GOOD}", BAD),
    "a fence in a fence": into(f"```\n```json\n{GOOD}\n```\n```", f"```json\n{GOOD}\n```", BAD),
    "a fence of tildes": same("~~~json\n" + GOOD + "\n~~~", BAD),
    "a fence of four backticks": same("````\n" + GOOD + "\n````", BAD),
    "a fence and a line separator behind": same("```json\n" + GOOD + "\n```\u2028", BAD),
    "a fence with text around": same("Here:\n```json\n" + GOOD + "\n```", BAD),
    "backticks in a text": same('{"a":1,"s":"```json\\n```"}', None),
}

PROSES = {
    "prose before": into("Sure! " + GOOD, GOOD, None, PROSE),
    "prose behind": into(GOOD + "\nI hope this helps.", GOOD, None, PROSE),
    "prose around": into("Here:\n\n" + GOOD + "\n\nDone.", GOOD, None, PROSE),
    "prose and a fence": into("Here:\n```json\n" + GOOD + "\n```\nDone.", GOOD, None, PROSE),
    "a fence on one line is prose": into("```json " + GOOD + "```", GOOD, None, PROSE),
    "a fence not closed is prose": into("```json\n" + GOOD, GOOD, None, PROSE),
    "a tag is prose": into("<answer>" + GOOD + "</answer>", GOOD, None, PROSE),
    "a BOM is prose": into("\ufeff" + GOOD, GOOD, None, PROSE),
    "a line separator is prose": into(GOOD + "\u2028", GOOD, None, PROSE),
    "quotes are prose": into(f'"{GOOD}"', GOOD, None, PROSE),
    "prose with a bracket before": same("As in [1]: " + GOOD, BAD, PROSE),
    "prose with a bracket behind": same(GOOD + " [1]", BAD, PROSE),
    "prose with a brace behind": into(GOOD + " (the end})", GOOD + " (the end}", BAD, PROSE),
    "an array stays": same("[" + GOOD + "]", "NOT_OBJECT", PROSE),
    "an array in prose stays": same("Here: [" + GOOD + "]", BAD, PROSE),
    "two objects stay": same(GOOD + GOOD, BAD, PROSE),
    "two objects in prose": into(f"First {GOOD}, then {GOOD}.", f"{GOOD}, then {GOOD}", BAD, PROSE),
    "prose alone": same("I can't help with that.", BAD, PROSE),
    "prose around a cut object": same('Here: {"a":1', BAD, PROSE),
    "prose around an inner array": into('So: {"a":1,"l":["x"]}!', '{"a":1,"l":["x"]}', None, PROSE),
    "prose not wanted": same("Sure! " + GOOD, BAD, ("trim", "fence", "trailing_comma", "null_as_absent")),
    "1 MB of prose": into("x" * 1_000_000 + GOOD, GOOD, None, PROSE),
    "1 MB of brackets in prose": same("x[" * 500_000 + GOOD, BAD, PROSE),
    "100,000 braces that close": same("}" * 100_000 + GOOD + "[", BAD, PROSE),
}

COMMAS = {
    "a comma to remove": into('{"a":1,}', GOOD, None, COMMA),
    "a comma in an array to remove": into('{"a":1,"l":["x" , \n]}', '{"a":1,"l":["x"  \n]}', None, COMMA),
    "commas to remove": into('{"a":1,"l":["x",],"o":{"x":"y",},}', '{"a":1,"l":["x"],"o":{"x":"y"}}', None, COMMA),
    "commas in a text": same('{"a":1,"s":",} ,]"}', None, COMMA),
    "commas in a text behind an escape": into('{"a":1,"s":"\\",}\\\\",}', '{"a":1,"s":"\\",}\\\\"}', None, COMMA),
    "commas in a name": same('{"a":1,",}":1}', None, COMMA),
    "two trailing commas": into('{"a":1,"l":["x",,]}', '{"a":1,"l":["x",]}', BAD, COMMA),
    "a comma alone": same("{,}", BAD, COMMA),
    "a comma alone in an array": same('{"a":1,"l":[ ,]}', BAD, COMMA),
    "two commas alone": into("[,,]", "[,]", BAD, COMMA),
    "a comma behind the object": same('{"a":1},', BAD, COMMA),
    "a comma and a no-break space": same('{"a":1,\xa0}', BAD, COMMA),
    "commas in a text not closed": same('{"a":1,"s":"x,}', BAD, COMMA),
    "a backslash at the end": same('{"a":1,"s":"x\\', BAD, COMMA),
    "a comma not to remove": same('{"a":1,}', BAD, ("trim", "fence", "prose", "null_as_absent")),
    "1 MB of commas": into("[" + "1,]" * 100_000, "[" + "1]" * 100_000, BAD, COMMA),
}

ABSENT = {
    "a null": into('{"a":1,"s":null}', GOOD, None, NULLS),
    "a null first": into('{"s":null,"a":1}', GOOD, None, NULLS),
    "a null between": into('{"a":1,"s":null,"l":[]}', '{"a":1,"l":[]}', None, NULLS),
    "nulls alone": into('{"s":null,"o":null}', "{}", "MISSING_FIELD", NULLS),
    "a required null": into('{"a":null}', "{}", "MISSING_FIELD", NULLS),
    "nulls with blanks": into('{ "s" : null , "a":1 ,\n "l" :\tnull }', '{ "a":1  }', None, NULLS),
    "nulls first": into('{"s":null,"l":null,"o":null,"a":1}', GOOD, None, NULLS),
    "a null inside": into('{"a":1,"o":{"x":null}}', '{"a":1,"o":{}}', None, NULLS),
    "nulls deep inside": into('{"a":1,"z":[{"b":null,"c":[{"d":null}]},null]}', '{"a":1,"z":[{"c":[{}]},null]}', None,
                              NULLS),
    "a null element stays": same('{"a":1,"l":[null,"x"]}', None, NULLS),
    "a null in a text": same('{"a":1,"s":"\\"s\\":null,"}', None, NULLS),
    "a null in a text beside one": into('{"s":"{\\"s\\":null,","l":null,"a":1}', '{"s":"{\\"s\\":null,","a":1}', None,
                                        NULLS),
    "a null under a name with an escape stays": same('{"\\u0073":null,"a":1,"\\"":null}', "WRONG_TYPE", NULLS),
    "a null under a name with a colon": into('{"a":1,",:":null,"s":"x"}', '{"a":1,"s":"x"}', None, NULLS),
    "the text null": same('{"a":1,"s":"null"}', None, NULLS),
    "a kept null": same('{"a":1,"k":null}', None, NULLS),
    "a kept null first": into('{"k":null,"s":null,"a":1}', '{"k":null,"a":1}', None, NULLS),
    "a kept null between": into('{"s":null,"k":null,"l":null,"a":1}', '{"k":null,"a":1}', None, NULLS),
    "a kept null spelt with an escape": same('{"\\u006B":null,"a":1,"\\u00FC\\u002d1":null}', None, NULLS),
    "a name that ends in a kept one": into('{"kk":null,"a":1,"xk":null}', GOOD, None, NULLS),
    "a kept null inside": into('{"a":1,"o":{"s":null,"k":null}}', '{"a":1,"o":{"k":null}}', None, NULLS),
    "a null in a text that is no JSON": same('{"s":null,}', BAD, NULLS),
    "a null member in an array": same('{"a":1,"z":["s":null]}', BAD, NULLS),
    "a repeated null": same('{"a":1,"s":null,"s":null}', BAD, NULLS),
    "a null beside a repeated name": same('{"a":1,"a":2,"s":null}', BAD, NULLS),
    "a null alone": same("null", "NOT_OBJECT", NULLS),
    "a null below 251 levels": same(nested(251, '{"s":null}'), BAD, NULLS),
    "nulls not wanted": same('{"a":1,"s":null}', "WRONG_TYPE", ("trim", "fence", "prose", "trailing_comma")),
    "10,000 nulls": into('{"a":1,' + ",".join(f'"z{n}":null' for n in range(10_000)) + "}", GOOD, None, NULLS),
    "every repair": into('Here:\n```json\n{"s":null,"a":1,"l":["x",],}\n```\nDone.', '{"a":1,"l":["x"]}', None, ALL),
    "every repair in a fence": into(' ```\n{"a":1,"s":null,}\n``` ', '{"a":1}', None, ALL),
    "a comma behind a null": into('{"s":null,"a":1,}', GOOD, None, ("null_as_absent", "trailing_comma")),
}  # fmt: skip

ANSWERS = {**CUTS, **NUMBERS, **SYNTAX, **STRINGS, **DEPTHS, **REASONINGS, **FENCES, **PROSES, **COMMAS, **ABSENT}
"""By a name for test ids."""
