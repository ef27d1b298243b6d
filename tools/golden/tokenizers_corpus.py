"""Texts for the tokenizer goldens: the training texts of the small tokenizers, and the test texts."""
import random
import unicodedata

ENGLISH = """The quick brown fox jumps over the lazy dog. It's what they've said, isn't it? We'll see; I'd rather not.
A kernel is correct, or it is nothing; a kernel is fast, or nobody uses it. Measure twice, cut once, and write down both.
When the model reads the text again, the model writes the text again, and there is no end to the reading and writing.
In 1969 there were 4 computers; in 2024 there are 1234567890 of them, 3.14159 of which are yours."""
CODE = """#include <vector>
int main(int argc, char** argv) {
    for (int i = 0; i < 10; ++i) {
        std::printf("%d\\n", values[i]);
    }
\treturn 0;
}
def forward(self, x):
    return self.norm(x + self.attention(x, mask=None))
<div class="main"><a href="https://example.org/?q=1&amp;r=2">link</a></div>
"""
OTHERS = """Der schnelle braune Fuchs springt über den faulen Hund; die Größe der Straße überrascht Käthe.
Où est passé l'été ? L'élève a reçu ça, naïvement, à Noël : cœur, garçon, déjà vu.
El niño pequeño comió piña mañana. Žluťoučký kůň. Zażółć gęślą jaźń. Быстрая лиса прыгает через собаку.
快速的棕色狐狸跳过懒狗。模型一次又一次地阅读文本。今天天气很好,我们去公园吧。
素早い茶色の狐がのろまな犬を飛び越える。モデルはテキストを読みます。カタカナとひらがな。
빠른 갈색 여우가 게으른 개를 뛰어넘는다. 모델은 글을 다시 읽는다.
الثعلب البني السريع يقفز فوق الكلب الكسول. النموذج يقرأ النص.
तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। मॉडल पाठ पढ़ता है।
Γρήγορη αλεπού. שועל חום מהיר. สุนัขจิ้งจอกสีน้ำตาล"""

TRAINING = [line for text in (ENGLISH, CODE, OTHERS) for line in text.splitlines(keepends=True)] * 3

CURATED = [
    "", " ", "  ", "\n", "\t", "a", "é", "Hello, world!", " Hello", "Hello ", "  two  spaces  ", "\n\n\nlines\n\n",
    "tabs\t\tand\tspaces  \t  mixed\r\n\r\nwindows\r\nlines\r", "nbsp\u00a0here\u00a0\u00a0and \u2003em\u3000wide\u2028sep\u0085nel",
    "trailing spaces     ", "     leading spaces", "a     b", "a \n b", "a\n \nb", " \n", "\n ", "   \n   \n   x",
    ENGLISH, CODE, OTHERS,
    "I'm he's they'll we've you're I'd don't 'tis", "I'M HE'S THEY'LL WE'VE YOU'RE I'D DON'T", "x'\u017f y'\u017fo 'S'\u212a \u212aelvin \u017ftrange",
    "it\u2019s they\u2019ll", "''''s", "'", "'s", "s'", "'RE'Ve'lL",
    "1", "12", "123", "1234", "12345678901234567890", "1,234,567.89", "3.14e-10", "٣٤٥٦٧", "一二三四", "½¾Ⅷ²³", "0x7fffffffffffffff",
    "e\u0301 e\u0300\u0323 a\u0308\u0304 n\u0303", "\u00e9 vs e\u0301", "\u1e69 s\u0323\u0307 s\u0307\u0323", "\u0301alone", "A\u030a \u212b \u00c5",
    "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00", "\uac00\u11a8", "\u0958 \u0915\u093c", "\u2126 \u2000x", "Z\u0351\u036b\u0343a\u0321\u0353lgo\u0320\u0312",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 family", "\U0001f44d\U0001f3fd\U0001f44d", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\u2764\ufe0f\u200d\U0001f525",
    "flags \U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\U0001f600\U0001f600 \U0001f600",
    "\U0001d400\U0001d7d8\U00010348\U00020000", "\x00\x01\x1f\x7f", "a\x00b", "\ufeffbom", "\ufffd", "\uffff\U0010ffff", "\ue000private",
    "!!!???...---___***", "(a[b]{c}<d>)", "a_b-c.d/e\\f|g", "foo(bar, baz)[1:2]{3}", "https://example.org/a/b?c=d#e", "user@example.org",
    "\u2581", "\u2581\u2581x", "a\u2581b", " \u2581 ", "<0x41>", "<0x0A>\n", "<unk>", "\u0120\u010a", "caf\u00c3\u00a9",
    "<|begin_of_text|>", "hi<|eot_id|>there", " <|eot_id|> ", "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "<think>\nhm\n</think>\n\nok", "<tool_call>{}</tool_call>", "<|im_start", "<|im_end|><|im_end|>",
    "<s>[INST] Hi [/INST] Hello</s>", "[INST]", "x[INST]y", " [INST] ", "</s></s>", "<s> a</s> b", "[INST][/INST]",
    "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n", "<table><tr>", "a\n\nb\n\n\nc\n\n\n\n", "<unused0><unused1><unused12>", "<start_of_turn><pad><eos>",
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", " " * 37, "\n" * 17, "\t" * 9 + " x", "ab" * 50, "的" * 30,
    "ModelmodelMODELmOdEl", "HTTPServer2Client3", "über Über ÜBER", "ǅ ǆ Ǆ ʰ ª º", "x\u00adsoft", "\u202eRTL\u202c", "a\u200bb\u200cc\u200dd",
]

INVALID_BYTES = [b"\xff", b"abc\x80def", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82\xac\xe2\x82", b"\xf0\x9f\x98", b"\xf0\x9f\x98a", b"\xed\xa0\x80",
                 b"\xc0\xaf", b"\xe0\x80\xaf", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xf5\xbf\xbf\xbf", b"ok\xfe\xffok", b"\xe4\xbd\xa0\xe4\xbd", b"a\xcc", b"\x80\xbf\xc2"]

ADDED = ["<|begin_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<think>", "</s>", "<s>", "[INST]", "[/INST]", "<bos>", "<start_of_turn>", "\n\n", "<unused7>"]


def old_characters():
    """Characters whose properties every Unicode table since 3.2 agrees on, so that no version of it matters."""
    old = unicodedata.ucd_3_2_0
    return [chr(c) for c in range(0x110000) if old.category(chr(c)) not in ("Cn", "Cs", "Co") and
            old.category(chr(c)) == unicodedata.category(chr(c)) and
            old.combining(chr(c)) == unicodedata.combining(chr(c))]


def random_texts(count, seed):
    rng = random.Random(seed)
    anything = old_characters()
    marks = [c for c in anything if unicodedata.combining(c)]
    words = (ENGLISH + " " + OTHERS).split()
    pools = [
        lambda: rng.choice(words), lambda: rng.choice(words), lambda: " " + rng.choice(words), lambda: " " + rng.choice(words),
        lambda: " " * rng.randrange(1, 6), lambda: rng.choice(["\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", " \n", "\t\t"]),
        lambda: str(rng.randrange(10 ** rng.randrange(1, 14))), lambda: rng.choice("'!?.,;:-_()[]{}<>|/\\\"#$%&*+=@^`~"),
        lambda: rng.choice(["'s", "'T", "'re", "'Ve", "'m", "'LL", "'d", "'\u017f"]), lambda: rng.choice(anything), lambda: rng.choice(anything),
        lambda: rng.choice("aeiounsAEOUC") + "".join(rng.choice(marks) for _ in range(rng.randrange(1, 4))),
        lambda: "".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(rng.randrange(1, 4))),
        lambda: chr(rng.randrange(0xAC00, 0xD7A4)) + chr(rng.randrange(0x1100, 0x1113)) + chr(rng.randrange(0x1161, 0x1176)),
        lambda: rng.choice(["\U0001f600", "\U0001f468\u200d\U0001f469", "\U0001f44d\U0001f3fd", "\u2764\ufe0f"]), lambda: rng.choice(ADDED),
        lambda: rng.choice(CODE.splitlines(keepends=True)),
    ]
    return ["".join(rng.choice(pools)() for _ in range(rng.randrange(1, 9))) for _ in range(count)]
