#!/usr/bin/env python3
"""Fixture for tokenizer_test.cpp: texts and their numbers by tiktoken, and by GPT-2's pattern with the regex package.

  python3 tests/parity/make_tokenizer.py FOLDER     # with GPT-2's encoder.json and vocab.bpe; writes tokenizer.json

Both references must agree. A small vocabulary learned by the textbook algorithm (count all pairs, join the most frequent,
again) is there too, for Tokenizer::train.
"""
import collections
import json
import os
import random
import sys
import unicodedata

import regex
import tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
END = "<|endoftext|>"

TEXTS = [
    "", "Hello world", "Hello, world! It's 2024 and we're 100% sure they'll've seen I'd be 'tis.",
    " leading", "trailing ", "two  spaces   three", "line\nline\n\nline\r\nline\t tab", "\n", " ", "   ", "a\n b", "a \nb",
    "DON'T can't 'S x'll", "x = y_1 + 3.14159e-10; // comment", "naïve café — “quotes” … ½ ² Ⅷ ٣٤ १२३",
    "日本語のテキストと漢字。한국어 문장입니다. Русский текст, ещё раз.", "مرحبا بالعالم שלום עולם", "Zürich straße ÅÄÖ éèê",
    "e\u0301 combining a\u0308", "🙂👍🏽👨‍👩‍👧‍👦🇩🇪", "\u00a0nbsp\u2003em\u3000ideographic\u200bzero\u0085next", "\x00\x01\x1b[0m\x1c\x1f\x7f",
    "<|endoftext|>", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "antidisestablishmentarianism floccinaucinihilipilification",
    "The quick brown fox jumps over the lazy dog. " * 3, "https://example.org/path?q=1&r=%20#x", "def f(x):\n    return x ** 2\n",
    "!!!???...---===", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𐍈 \U00020000", "ﬁ ﬂ ǆ ʰ ª º", "'", "''s", "' s", "1'2", "'sa'ta",
]
SAMPLE = ("the cat sat on the mat. the other cat sat on the other mat, and the cats sat together. "
          "low lower lowest new newer newest wide wider widest; low low low newest newest. ") * 2


def by_pattern(text, ranks):
    ids = []
    for word in regex.findall(PATTERN, text):
        parts = [bytes([b]) for b in word.encode()]
        while len(parts) > 1:
            best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 30))
            if parts[best] + parts[best + 1] not in ranks:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        ids += [ranks[part] for part in parts]
    return ids


def learned(text, count):
    """The first `count` pairs, as the bytes of their parts; of equally frequent ones that with the smaller numbers."""
    order = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b]
    order += [b for b in range(256) if b not in order]
    number = {bytes([b]): i for i, b in enumerate(order)}
    words = collections.Counter(regex.findall(PATTERN, text))
    words = [([bytes([b]) for b in word.encode()], n) for word, n in words.items()]
    pairs = []
    for _ in range(count):
        counts = collections.Counter()
        for parts, n in words:
            for pair in zip(parts, parts[1:]):
                counts[pair] += n
        if not counts:
            break
        pair = min(counts, key=lambda p: (-counts[p], number[p[0]], number[p[1]]))
        if counts[pair] < 2:
            break
        pairs.append(pair)
        number[pair[0] + pair[1]] = len(number)
        for parts, _ in words:
            i = 0
            while i + 1 < len(parts):
                if (parts[i], parts[i + 1]) == pair:
                    parts[i:i + 2] = [pair[0] + pair[1]]
                i += 1
    return [[a.decode(), b.decode()] for a, b in pairs]


def main():
    folder = sys.argv[1]
    ranks = data_gym_to_mergeable_bpe_ranks(os.path.join(folder, "vocab.bpe"), os.path.join(folder, "encoder.json"))
    reference = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={END: 50256})
    chance = random.Random(1)
    known = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    texts = TEXTS + ["".join(chr(chance.choice(known)) for _ in range(60)) for _ in range(8)]
    texts += ["".join(chance.choice(" \n'aBs1é.t\u3000x") for _ in range(80)) for _ in range(6)]
    rows = []
    for text in texts:
        ids = reference.encode_ordinary(text)
        assert ids == by_pattern(text, ranks), text
        rows.append([text, ids])
    special = "one" + END + "two" + END
    result = {"texts": rows, "special": [special, reference.encode(special, allowed_special="all")],
              "sample": SAMPLE, "pairs": learned(SAMPLE, 60)}
    with open(os.path.join(HERE, "tokenizer.json"), "w") as f:
        json.dump(result, f)
        f.write("\n")
    print(len(rows), "texts,", len(result["pairs"]), "pairs")


if __name__ == "__main__":
    main()
