"""Writes tests/models/data/tokenizers: small tokenizer files, and what the `tokenizers` library makes of texts with them.

Usage: python tools/golden/tokenizers_golden.py [OUT]   (needs `pip install tokenizers`; made with 0.23.3)
"""
import json
import pathlib
import random
import sys

from tokenizers import Regex, Tokenizer, pre_tokenizers
from tokenizers.decoders import DecodeStream

from tokenizers_corpus import CURATED, INVALID_BYTES, random_texts
from tokenizers_families import FAMILIES
from tokenizers_variants import PATTERN_TEXTS, PATTERNS, variants

RANDOM_TEXTS = 320
RANDOM_IDS = 60


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def merge_patch(target, patch):
    """RFC 7386, as the C++ test applies it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def streamed(tokenizer, ids, skip):
    """What DecodeStream gives, joined; None where it refuses a later token, as it does when a text shrinks."""
    stream, out = DecodeStream(skip_special_tokens=skip), ""
    try:
        for i in ids:
            out += stream.step(tokenizer, i) or ""
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # the library's panics are no Exception
        return None
    return out


def same_or(value, other):
    return True if value == other else value


def case(tokenizer, text):
    """[ids, ids with special tokens, decoded, decoded without special tokens, streamed]; True for 'as the one before'."""
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    full = tokenizer.encode(text, add_special_tokens=True).ids
    kept, skipped = tokenizer.decode(full, skip_special_tokens=False), tokenizer.decode(full, skip_special_tokens=True)
    return [ids, same_or(full, ids), kept, same_or(skipped, kept), same_or(streamed(tokenizer, full, True), skipped)]


def id_case(tokenizer, ids):
    return [ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)]


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    documents = {name: make() for name, make in FAMILIES.items()}
    texts = CURATED + random_texts(RANDOM_TEXTS, seed=20240601)
    (out / "texts.json").write_text('{"texts":[\n' + ",\n".join(map(dump, texts)) + '\n],\n"bytes":' +
                                    dump([b.hex() for b in INVALID_BYTES]) + "}\n", encoding="utf-8")
    texts += [b.decode("utf-8", errors="replace") for b in INVALID_BYTES]
    for name, document in documents.items():
        text = dump(document)
        (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        tokenizer = Tokenizer.from_str(text)
        size = tokenizer.get_vocab_size()
        rng = random.Random(name)
        id_lists = [[rng.randrange(size) for _ in range(rng.randrange(1, 24))] for _ in range(RANDOM_IDS)]
        rows = ",\n".join(dump(case(tokenizer, t)) for t in texts)
        id_rows = ",\n".join(dump(id_case(tokenizer, ids)) for ids in id_lists)
        (out / f"{name}_expected.json").write_text(f'{{"vocab_size":{size},\n"texts":[\n{rows}\n],\n"ids":[\n{id_rows}\n]}}\n',
                                                   encoding="utf-8")

    rows = []
    for name, base, patch, variant_texts in variants({n: len(d["model"]["vocab"]) for n, d in documents.items()}):
        tokenizer = Tokenizer.from_str(dump(merge_patch(documents[base], patch)))
        rows.append({"name": name, "base": base, "patch": patch, "cases": [[t, *case(tokenizer, t)] for t in variant_texts]})
    (out / "variants.json").write_text("[\n" + ",\n".join(map(dump, rows)) + "\n]\n", encoding="utf-8")

    rows = []
    for pattern in PATTERNS:
        only_matches = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        rows.append([pattern, [[word for word, _ in only_matches.pre_tokenize_str(t)] for t in PATTERN_TEXTS]])
    (out / "patterns.json").write_text('{"texts":' + dump(PATTERN_TEXTS) + ',\n"patterns":[\n' + ",\n".join(map(dump, rows)) + "\n]}\n",
                                       encoding="utf-8")


if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parents[2]
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "tests/models/data/tokenizers")
