"""The replay study: eviction's error and its certificate on real keys, values and decode queries.

A model reads a prompt and decodes a few tokens with its whole cache. What it held and asked is kept. Then the cache is
compressed as a served one is (`fewer.evict.compress`), by every arm, and each decode query is answered by what is left:
the true error of every layer and head is seen, beside what the certificate says. Nothing is generated from a compressed
cache; so this measures one attention output at a time, with the queries of the full model, and no answer.

    replay.yaml    what is asked: prompts, arms, budgets, claims
    spec.py        that file, checked
    items.py       the prompts
    arms.py        the policies, and scores and designs that are worse on purpose
    capture.py     what the full model held and asked
    measure.py     one compressed cache against the full one
    worlds.py      Theorem 1: the evicted values permuted
    table.py       the rows on disk
    run.py         prompt by prompt, going on where it was killed
    registered.py  what was fixed before the run
    estimates.py   measures with intervals over prompts
    claims.py      what became of each claim
"""
