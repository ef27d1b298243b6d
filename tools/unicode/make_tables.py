"""Writes the Unicode tables of src/models/unicode.cpp, from this Python's unicodedata. Usage: make_tables.py OUT"""
import sys
import unicodedata

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()
CODE_POINTS = range(0x110000)
PAGE = 256

# White_Space (PropList.txt). str.isspace() would add U+001C..U+001F, which regular expressions do not.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
# What a word has beyond letters, letter numbers, marks, decimal digits and connectors (UTS 18, \w): the joiners, and
# Other_Alphabetic among the symbols.
EXTRA_WORD = {0x200C, 0x200D, *range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A), *range(0x1F150, 0x1F16A),
              *range(0x1F170, 0x1F18A)}


def canonical(c):
    """The one-step canonical decomposition as a list of one or two code points; empty where there is none."""
    mapping = unicodedata.decomposition(chr(c))
    return [int(x, 16) for x in mapping.split()] if mapping and not mapping.startswith("<") else []


def is_surrogate(c):
    return 0xD800 <= c < 0xE000


def composition(c):
    """(first, second, c) where NFC composes c from its decomposition, which leaves the composition exclusions out."""
    parts = canonical(c)
    if len(parts) == 2 and unicodedata.normalize("NFC", "".join(map(chr, parts))) == chr(c):
        return parts[0], parts[1], c
    return None


def simple_fold(c):
    folded = chr(c).casefold()
    return ord(folded) if len(folded) == 1 else c


def case_mappings(change):
    """(c, what change makes of it, with zeros behind) for every character that it changes."""
    changed = [(c, [ord(x) for x in change(chr(c))]) for c in CODE_POINTS if not is_surrogate(c)]
    return [(c, "{" + ",".join(map(str, (to + [0, 0])[:3])) + "}") for c, to in changed if to != [c]]


def long_fold(c):
    """What c folds to where that is two or three code points, with zeros behind."""
    folded = [ord(x) for x in chr(c).casefold()]
    return (folded + [0])[:3] if len(folded) > 1 else None


def property_bytes(seconds):
    """Per code point: category in bits 0..4, bit 5 'NFC may change text that holds it', bit 6 'part of a word', bit 7 white space."""
    hangul_second = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    out = bytearray()
    for c in CODE_POINTS:
        category = unicodedata.category(chr(c))
        value = CATEGORIES.index(category)
        changes = not is_surrogate(c) and unicodedata.normalize("NFC", chr(c)) != chr(c)
        if changes or unicodedata.combining(chr(c)) or c in seconds or c in hangul_second:
            value |= 0x20
        if category[0] in "LM" or category in ("Nd", "Nl", "Pc") or c in EXTRA_WORD:
            value |= 0x40
        if c in SPACES:
            value |= 0x80
        out.append(value)
    return bytes(out)


def combining_ranges():
    ranges = []
    for c in CODE_POINTS:
        value = unicodedata.combining(chr(c))
        if not value:
            continue
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == value:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, value])
    return ranges


def array(kind, name, rows):
    lines, line = [], ""
    for row in rows:
        item = "{" + ",".join(map(str, row)) + "}," if isinstance(row, (list, tuple)) else f"{row},"
        if len(line) + len(item) > 118:
            lines.append(line)
            line = ""
        line += item
    return f"constexpr {kind} {name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


def main(path):
    compositions = sorted(filter(None, map(composition, CODE_POINTS)))
    decompositions = [(c, *(canonical(c) + [0])[:2]) for c in CODE_POINTS if canonical(c)]
    folds = sorted((simple_fold(c), c) for c in CODE_POINTS if not is_surrogate(c) and simple_fold(c) != c)
    long_folds = sorted((long_fold(c), c) for c in CODE_POINTS if not is_surrogate(c) and long_fold(c))
    properties = property_bytes({second for _, second, _ in compositions})
    pages = {}
    page_of = [pages.setdefault(properties[i:i + PAGE], len(pages)) for i in range(0, len(properties), PAGE)]
    with open(path, "w", encoding="ascii") as out:
        out.write(f"// Unicode {unicodedata.unidata_version}, written by tools/unicode/make_tables.py.\n")
        out.write(array("std::string_view", "kCategoryNames", [f'"{name}"' for name in CATEGORIES]))
        out.write(array("uint16_t", "kPageOf", page_of))
        out.write(array("uint8_t", "kProperties", [value for page in pages for value in page]))
        out.write(array("CombiningRange", "kCombining", combining_ranges()))
        out.write(array("Decomposition", "kDecompositions", decompositions))
        out.write(array("Composition", "kCompositions", compositions))
        out.write(array("Fold", "kFolds", folds))
        out.write(array("LongFold", "kLongFolds", [("{" + ",".join(map(str, to)) + "}", c) for to, c in long_folds]))
        out.write(array("CaseMapping", "kUpper", case_mappings(str.upper)))
        out.write(array("CaseMapping", "kLower", case_mappings(str.lower)))
        out.write(array("CaseMapping", "kTitle", case_mappings(str.title)))


if __name__ == "__main__":
    main(sys.argv[1])
