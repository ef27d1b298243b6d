"""Small tokenizers of four families, trained here, with the components those families' tokenizer.json files have."""
import collections
import json

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tokenizers_corpus import TRAINING

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = CONTRACTIONS + r"\p{N}{1,3}" + REST
QWEN_PATTERN = CONTRACTIONS + r"\p{N}" + REST
BYTE_TOKENS = [f"<0x{b:02X}>" for b in range(256)]


def added(first_id, contents, special):
    return [{"id": first_id + i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": special} for i, c in enumerate(contents)]


def byte_level(add_prefix_space, trim_offsets, use_regex):
    return {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": trim_offsets, "use_regex": use_regex}


def begin_template(token, token_id):
    one = {"SpecialToken": {"id": token, "type_id": 0}}
    return {"type": "TemplateProcessing",
            "single": [one, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [one, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": token, "type_id": 1}},
                     {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}}}


def train(tokenizer, size, **options):
    tokenizer.train_from_iterator(TRAINING, trainers.BpeTrainer(vocab_size=size, show_progress=False, **options))
    model = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return tokens, [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]


def train_byte_level(pattern, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return train(tokenizer, size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))


def train_pieces(size):
    """Merges that cross spaces, as sentence pieces do, over an alphabet too small for the corpus."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("[^\u2581]+|\u2581+"), "merged_with_next")
    # Chosen here: among characters of equal count the trainer chooses at random.
    counts = collections.Counter("".join(TRAINING).replace(" ", "\u2581"))
    alphabet = sorted(counts, key=lambda c: (-counts[c], c))[:120]
    return train(tokenizer, size, initial_alphabet=alphabet, limit_alphabet=len(alphabet))


def document(tokens, merges, **parts):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
    model.update(parts.pop("model"))
    model["vocab"] = {token: i for i, token in enumerate(tokens)}
    model["merges"] = merges
    return {"version": "1.0", "truncation": None, "padding": None, **parts, "model": model}


def llama3():
    tokens, merges = train_byte_level(LLAMA3_PATTERN, 700)
    tokens += ["\u0120nothing", "printf", "\u00e6\u00a8\u00a1\u00e5\u0140\u012d"]  # words that no merge reaches, for ignore_merges
    tokens = list(dict.fromkeys(tokens))
    split = {"type": "Split", "pattern": {"Regex": LLAMA3_PATTERN}, "behavior": "Isolated", "invert": False}
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"]
    return document(tokens, merges, added_tokens=added(len(tokens), names, True), normalizer=None,
                    pre_tokenizer={"type": "Sequence", "pretokenizers": [split, byte_level(False, True, False)]},
                    post_processor={"type": "Sequence", "processors": [byte_level(True, False, True),
                                                                       begin_template(names[0], len(tokens))]},
                    decoder=byte_level(True, True, True), model={"ignore_merges": True})


def qwen():
    tokens, merges = train_byte_level(QWEN_PATTERN, 700)
    split = {"type": "Split", "pattern": {"Regex": QWEN_PATTERN}, "behavior": "Isolated", "invert": False}
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>"]
    plain = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
    return document(tokens, [" ".join(pair) for pair in merges],
                    added_tokens=added(len(tokens), special, True) + added(len(tokens) + len(special), plain, False),
                    normalizer={"type": "NFC"},
                    pre_tokenizer={"type": "Sequence", "pretokenizers": [split, byte_level(False, False, False)]},
                    post_processor=byte_level(False, False, False), decoder=byte_level(False, False, False),
                    model={"continuing_subword_prefix": "", "end_of_word_suffix": ""})


def replace_decoder():
    return {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}


def mistral():
    pieces, merges = train_pieces(520)
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"]
    return document(names + BYTE_TOKENS + pieces, [" ".join(pair) for pair in merges], added_tokens=added(0, names, True),
                    normalizer=None,
                    pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False},
                    post_processor=begin_template("<s>", 1),
                    decoder={"type": "Sequence", "decoders": [replace_decoder(), {"type": "ByteFallback"}, {"type": "Fuse"},
                                                              {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
                    model={"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True})


def gemma():
    pieces, merges = train_pieces(480)
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"]
    plain = [f"<unused{i}>" for i in range(14)] + ["\n" * n for n in range(2, 6)] + ["\u2581" * n for n in range(2, 6)] + \
            ["<table>", "<tr>", "<td>", "</table>"]
    pieces = [piece for piece in pieces if piece not in plain]
    tokens = special + plain + BYTE_TOKENS + pieces
    known = set(tokens)
    merges = [pair for pair in merges if {*pair, "".join(pair)} <= known]
    return document(tokens, merges, added_tokens=added(0, special, True) + added(len(special), plain, False),
                    normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
                    pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                    post_processor=begin_template("<bos>", 2),
                    decoder={"type": "Sequence", "decoders": [replace_decoder(), {"type": "ByteFallback"}, {"type": "Fuse"}]},
                    model={"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True})


FAMILIES = {"llama3": llama3, "qwen": qwen, "mistral": mistral, "gemma": gemma}
