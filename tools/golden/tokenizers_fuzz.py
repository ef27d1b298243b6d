"""Random split patterns on random texts, and what the `tokenizers` library finds: in the form of patterns.json.

Usage: python tools/golden/tokenizers_fuzz.py OUT [PATTERNS [TEXTS [SEED]]]   (needs `pip install tokenizers`)
"""
import json
import pathlib
import random
import sys

from tokenizers import Regex, pre_tokenizers

LETTERS = "abfFiIkKsStT\u017f\u212a\u00df\u1e9e\ufb00\ufb01\ufb03\ufb05\u0130\u0131\u0307\u01c4\u01c5\u01c6\u03a3\u03c3\u03c2\u1f80\u1f88"
OTHERS = "019 \t\n_-'.\u00b2\u00bd\u2167\u0663\u200d\u24b6\u6f22\u00a0"
SETS = [r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\p{L}", r"\p{Lu}", r"\p{Ll}", r"\P{Lu}", r"\p{N}", r"\p{M}"]


def character(rng):
    return rng.choice(LETTERS if rng.random() < 0.8 else "019 _'")


def bracket(rng):
    members = "".join(rng.choice([character(rng), character(rng), rng.choice(SETS), "a-z", "A-Z"])
                      for _ in range(rng.randrange(1, 4)))
    return "[" + rng.choice(["", "", "^"]) + members + "]"


def atom(rng, depth):
    kind = rng.random()
    if kind < 0.5:
        return character(rng)
    if kind < 0.65:
        return rng.choice(SETS)
    if kind < 0.78:
        return bracket(rng)
    if kind < 0.82:
        return rng.choice([r"\b", r"\B"])
    if depth == 0:
        return "."
    return rng.choice(["(?:", "(", "(?i:", "(?i:", "(?-i:", "(?=", "(?!", "(?>"]) + pattern(rng, depth - 1) + ")"


def quantified(rng, depth):
    body = atom(rng, depth)
    if body in (r"\b", r"\B") or body.startswith(("(?=", "(?!")) or rng.random() < 0.65:
        return body
    count = rng.choice(["?", "*", "+", "{2}", "{1,2}", "{,2}", "{2,}"])
    return body + count + rng.choice(["", "", "+"] if count == "{2}" else ["", "", "+", "?"])


def pattern(rng, depth):
    return "|".join("".join(quantified(rng, depth) for _ in range(rng.randrange(1, 5)))
                    for _ in range(rng.choice([1, 1, 2])))


def text(rng):
    return "".join(rng.choice(LETTERS if rng.random() < 0.7 else OTHERS) for _ in range(rng.randrange(0, 24)))


def main(out, patterns=400, texts=60, seed=1):
    rng = random.Random(int(seed))
    all_texts = [text(rng) for _ in range(int(texts))]
    rows = []
    while len(rows) < int(patterns):
        p = pattern(rng, 2)
        p = f"(?i:{p})" if rng.random() < 0.4 else p
        try:
            only_matches = pre_tokenizers.Split(Regex(p), "removed", invert=True)
            rows.append([p, [[word for word, _ in only_matches.pre_tokenize_str(t)] for t in all_texts]])
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # not a pattern for the library, or one it gives up on with a panic
            continue
    pathlib.Path(out).write_text(json.dumps({"texts": all_texts, "patterns": rows}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
