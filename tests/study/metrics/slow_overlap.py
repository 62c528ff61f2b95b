"""ROUGE, BLEU and common subsequences from their definitions: exact fractions, plain recursion, no tables."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache


def share_words(ours, gold):
    left, same = list(gold), 0
    for word in ours:
        if word in left:
            left.remove(word)
            same += 1
    return Fraction(2 * same, len(ours) + len(gold)) if same else Fraction(0)


def common(x, y, keep_x):
    """Places in x of the common subsequence that the rule reads from the ends."""

    @cache
    def length(i, j):
        if not i or not j:
            return 0
        if x[i - 1] == y[j - 1]:
            return 1 + length(i - 1, j - 1)
        return max(length(i - 1, j), length(i, j - 1))

    def read(i, j):
        if not i or not j:
            return []
        if x[i - 1] == y[j - 1]:
            return [*read(i - 1, j - 1), i - 1]
        drop_x = length(i - 1, j) > length(i, j - 1) if keep_x else length(i - 1, j) >= length(i, j - 1)
        return read(i - 1, j) if drop_x else read(i, j - 1)

    return read(len(x), len(y))


def rouge_parts(text, reference, n):
    hyp, ref = ([" ".join(s.split()).split(" ") for s in t.split(".") if s != ""] for t in (text, reference))
    if not hyp or not ref:
        return None
    if n:
        grams = []
        for sentences in (hyp, ref):
            words = [w for s in sentences for w in s]
            grams.append({" ".join(words[i : i + n]) for i in range(len(words)) if i + n <= len(words)})
        return len(grams[0] & grams[1]), len(grams[0]), len(grams[1])
    found = set()
    for r in ref:
        for h in hyp:
            found |= {r[i] for i in common(tuple(r), tuple(h), keep_x=True)}
    return len(found), len({w for s in hyp for w in s}), len({w for s in ref for w in s})


def rouge_f(text, answers, meta):
    def one(reference):
        parts = rouge_parts(text, reference, 0)
        if parts is None:
            return 0.0
        p, r = parts[0] / parts[1], parts[0] / parts[2]
        return 2 * p * r / (p + r + 1e-8)

    return max(map(one, answers))


def rouge_r(n):
    def score(text, answers, meta):
        parts = [rouge_parts(text or "None", a, n) for a in answers]
        return max(Fraction(p[0], p[2]) if p and p[2] else Fraction(0) for p in parts)

    return score


def latin(text):
    return "".join(c if c in "abcdefghijklmnopqrstuvwxyz0123456789" else " " for c in text.lower()).split()


def google(n):
    def one(text, reference):
        ours, gold = latin(text), latin(reference)
        if n:
            ours, gold = ([tuple(w[i : i + n]) for i in range(len(w) - n + 1)] for w in (ours, gold))
            return share_words(ours, gold)
        same = len(common(tuple(gold), tuple(ours), keep_x=False))
        return Fraction(2 * same, len(ours) + len(gold)) if same else Fraction(0)

    return lambda text, answers, meta: max(one(text, a) for a in answers)


def google_sum(text, answers, meta):
    def one(reference):
        ours, gold = ([latin(s) for s in t.split("\n") if s] for t in (text, reference))
        budget_ours, budget_gold = [w for s in ours for w in s], [w for s in gold for w in s]
        total, hits = len(budget_ours) + len(budget_gold), 0
        for r in gold:
            for i in sorted({i for h in ours for i in common(tuple(r), tuple(h), keep_x=False)}):
                if r[i] in budget_ours and r[i] in budget_gold:
                    budget_ours.remove(r[i])
                    budget_gold.remove(r[i])
                    hits += 1
        return Fraction(2 * hits, total) if hits else Fraction(0)

    return max(map(one, answers))


def bleu(n):
    def one(text, reference):
        hyp, ref = (text or "None").split(), reference.split()
        if not hyp:
            return 0.0
        grams = [tuple(hyp[i : i + n]) for i in range(len(hyp) - n + 1)]
        left, same = [tuple(ref[i : i + n]) for i in range(len(ref) - n + 1)], 0
        for gram in grams:
            if gram in left:
                left.remove(gram)
                same += 1
        return same / max(1, len(grams)) * min(1.0, math.exp(1 - len(ref) / len(hyp)))

    return lambda text, answers, meta: max(one(text, a) for a in answers)
