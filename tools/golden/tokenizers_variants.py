"""Changes to the four tokenizers, as JSON merge patches, for components and flags the families themselves do not use."""
import re

from tokenizers_families import byte_level, replace_decoder

SPLIT_TEXTS = ["", "a1b22c333", "12 monkeys 3", "  x  1 ", "no digits", "2024", "1a", "a1", "1 2 3", "é9é", "東京2020"]
SPACE_TEXTS = ["", " ", "Hello world", " Hello  world ", "a", "  ", "\u2581a b", "x <s> y</s>z", "<s>a", "[INST] b", "日本 語", "a\n b", "\U0001f600 é"]
FLAG_TEXTS = [re.sub("[A-D]", r"Tok\g<0>", text) for text in ["", "A", " A ", "xAy", "x A y", "A A", "AA", "\u00a0 A\t\nB", "BB", " B B ", "x C y", "xC", "Cx", "_C", "C.", "-C-", "C C", "éC", "C\u0301",
              "word", "a word here", "swordfish", "word word", "  word  ", "<|eot_id|>", " <|eot_id|>  A", "cafe\u0301", "un caf\u00e9 ici", "cafe\u0301s", "A  B", "  A  B  ", "D D", " D ", "xDy",
              "\u24b6C", "C\u24b6", "C\u200d", "\u203fC", "³C", "Ⅷ C"]]


def flags(first_id, *tokens):
    out = []
    for i, (content, *names) in enumerate(tokens):
        out.append({"id": first_id + i, "content": content, **{name: name in names for name in
                    ("single_word", "lstrip", "rstrip", "normalized", "special")}})
    return out


def split(pattern, behavior, invert=False, kind="Regex"):
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}, byte_level(False, True, False)]}}


def metaspace(scheme, split_words, **more):
    return {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split_words}, **more}


def decoder(*steps):
    return {"decoder": {"type": "Sequence", "decoders": list(steps), "add_prefix_space": None, "trim_offsets": None, "use_regex": None}}


def variants(sizes):
    """(name, base, patch, texts); `sizes` are the vocabularies' sizes without added tokens, where new ids start."""
    fuse, fallback = {"type": "Fuse"}, {"type": "ByteFallback"}
    prepend = {"normalizer": {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}, "pre_tokenizer": None}
    flagged = flags(sizes["qwen"], ("TokA", "lstrip"), ("TokB", "rstrip", "special"), ("TokC", "single_word"), ("word", "single_word", "lstrip", "rstrip", "normalized"),
                    ("caf\u00e9", "normalized"), ("<|eot_id|>", "special"), ("TokD", "lstrip", "rstrip", "normalized", "special"))
    yield "llama2", "mistral", prepend, SPACE_TEXTS + FLAG_TEXTS
    yield "llama2_normalized_added", "mistral", {**prepend, "added_tokens": flags(0, ("<unk>", "special"), ("<s>", "normalized"), ("</s>", "normalized"), ("[INST]", "normalized", "lstrip"))}, SPACE_TEXTS
    for scheme in ("always", "first", "never"):
        for words in (True, False):
            yield f"metaspace_{scheme}_{words}", "mistral", metaspace(scheme, words, decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": words, "decoders": None}), SPACE_TEXTS
    yield "gpt2", "qwen", {"pre_tokenizer": {**byte_level(True, True, True), "pretokenizers": None}}, SPACE_TEXTS + SPLIT_TEXTS + ["it's I'LL", "a  b", "don't\n\n stop"]
    yield "gpt2_no_prefix", "qwen", {"pre_tokenizer": {**byte_level(False, True, True), "pretokenizers": None}}, SPACE_TEXTS
    yield "added_flags", "qwen", {"added_tokens": flagged}, FLAG_TEXTS
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            yield f"split_{behavior}_{invert}", "qwen", split(r"\p{N}", behavior, invert), SPLIT_TEXTS
    for each in (False, True):
        yield f"digits_{each}", "qwen", {"pre_tokenizer": {"pretokenizers": [{"type": "Digits", "individual_digits": each}, byte_level(False, False, True)]}}, SPLIT_TEXTS + ["x²½ Ⅷ 12٣4", "1", ""]
    yield "split_string", "qwen", split("1", "MergedWithNext", kind="String"), SPLIT_TEXTS
    yield "split_empty_match", "qwen", split(r"\d*", "Isolated"), SPLIT_TEXTS
    yield "no_decoder", "llama3", {"decoder": None}, ["Hello world", "", "a"]
    # The library stops with a panic where both ends of a token would strip the same character: those texts are left out.
    yield "strip_each", "mistral", decoder({"type": "Strip", "content": "\u2581", "start": 2, "stop": 0}, replace_decoder()), SPACE_TEXTS
    strip = {"type": "Strip", "content": " ", "start": 2, "stop": 3}
    yield "strip_fused", "mistral", decoder(replace_decoder(), fallback, fuse, strip), ["a", "   a   ", "a    b    ", "    a", "x <s> y</s>  "]
    yield "replace_fused", "mistral", decoder(fallback, fuse, {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}), SPACE_TEXTS
    yield "no_fallback", "mistral", {"model": {"byte_fallback": False}}, SPACE_TEXTS + ["\U0001f600\U0001f601x\U0001f602", "\u2603"]
    yield "no_fallback_no_fuse", "mistral", {"model": {"byte_fallback": False, "fuse_unk": False}}, SPACE_TEXTS + ["\U0001f600\U0001f601x\U0001f602"]
    yield "no_unk", "mistral", {"model": {"byte_fallback": False, "unk_token": None}}, SPACE_TEXTS + ["\U0001f600\U0001f601x\U0001f602"]
    yield "some_bytes_missing", "mistral", {"model": {"vocab": {"<0x98>": None}}}, SPACE_TEXTS + ["\U0001f600\u2603", "\U0001f600\U0001f601x\u2603\U0001f602", "\u2603\U0001f600\u2603a"]
    end = {"SpecialToken": {"id": "</s>", "type_id": 0}}
    begin, text = {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    yield "begin_and_end", "mistral", {"post_processor": {"single": [begin, text, end], "special_tokens": {"</s>": {"id": "</s>", "ids": [2, 2], "tokens": ["</s>", "</s>"]}}}}, SPACE_TEXTS[:4]


PATTERN_TEXTS = ["Hello, World's 1234 tests!\n\n  It'S  fine\t", "ΑΒΓ αβγ Ǆǅǆ \u017f\u212a ß ﬁ 漢字カナ", "  \n \t\r\n  x", "aaaa ab abab bbb", "a1b2-c3_d4.", "", "naïve café e\u0301 ½ Ⅷ ٣", "{x}[y](z) ^$|*+?", "\U0001f600\U0001f468\u200d\U0001f469 ok",
                 "ß \u1e9e ss SS sS \u017fs sss ßs sß \ufb00i ffi \ufb03 FFI \u0130 i\u0307 I\u0307 st \ufb06", "a²b½ x_1 \u24b6 foobar foo-foo Foo\u200d"]
PATTERNS = [
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[一-龥぀-ゟ゠-ヿ]+", r"a|ab", r"ab|a", r"a*", r"a*?b", r"a+?", r"(?:ab)+", r"(?:ab)*", r"(?:a|b){2,3}", r"(a|ab)(c|bab)?", r"a{2}", r"a{2,}", r"a{,2}b", r"a{1,2}?b", r"(?:a?)*b", r"(?:a*)*", r"(?:|a)+b", r"(?:a|)*b",
    r"\s+(?=\S)", r"[a-z]+(?!\d)", r"(?=a)\p{L}", r"(?!a)\p{L}", r"(?!(?!a))\p{L}", r"(?=(?:ab)+|x).", r".", r".+", r"\d+", r"\D+", r"\S+", r"[^\S\n]+", r"[\s\d]+", r"\p{^L}+", r"\P{L}+", r"[\P{L}]+", r"[^\p{L}]+",
    r"(?i:HELLO)", r"(?i:[h-j]+)", r"(?i:k|s)", r"(?i:\u03c3)", r"(?i:[^a-z]+)", r"(?i:a(?-i:B)c)|a(?i:B)", r"[a\-z]+", r"[a-]+", r"[-a]+", r"[\]\[]", r"\{|\}|\(|\)", r"\u0061+", r"\x{61}+", r"[\u0061-\u0063]+", r"\p{Lu}\p{Ll}*", r"\p{Nd}+|\p{Nl}+|\p{No}+", r"\p{Sm}|\p{Sc}|\p{So}", r"(?:(?:a|b)+|1)*x?", r"x*y*",
    r"\w+", r"\W+", r"[\w]+", r"[^\w]+", r"[\W]+", r"[\w\s]+", r"(?i:[\w-]+)", r"\bfoo\b", r"\b\w", r"\B.", r"foo\B", r"\w+(?:'\w+)?|[^\w\s]+",
    r"a++b", r"a++a", r"a*+b", r"a?+a", r"a?+b", r"(?:ab)++", r"(?:a|ab)++b", r"(?:a|b)*+b", r"\p{N}{1,3}+", r"a{2}+", r"a{1,2}+b", r"(?>a|ab)b", r"(?>a+)b", r"(?>(?:ab)+)a",
    r"[^\s\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|\s+", r"(?i:\p{Lu})+", r"(?i:[\p{Lu}])+", r"(?i:[^\p{Lu}])+", r"(?i:\P{Lu})+", r"(?i:\d)", r"(?i:ss)", r"(?i:\u00df)", r"(?i:[\u00df])", r"(?i:[\u00dfs])+x?",
    r"(?i:sss)", r"(?i:s\u00df)", r"(?i:[s]s)", r"(?i:ss+)", r"(?i:s{2})", r"(?i:s)(?i:s)", r"(?i:s(?:s))", r"(?i:s(s))", r"(?i:s(?i:s))", r"(?i:s(?:s|t))", r"(?i:ffi)", r"(?i:\ufb03)", r"(?i:\ufb00i)", r"(?i:\u0130)", r"(?i:i\u0307)", r"(?i:st)", r"(?i:[^\u00df])", r"(?i:(?:ss)+)", r"(?i:ss|f)",
]
