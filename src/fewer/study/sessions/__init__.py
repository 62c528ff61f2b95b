"""The study of sessions: can what an answer shows of itself tell damage by the cache from a hard question?

Every arm compresses a cache; every answer stands beside the full run's on the same item. All of it is computed from the
rows of a run's log, and nothing here runs a model.

    pilot.yaml, needles.yaml   the parts; `fewer.study.packaged` says what they are
    places.py      the answers of one policy, budget and condition, beside the full run's
    doubts.py      the signals as numbers, larger = more doubt
    outcomes.py    right, wrong, induced and inherent: counts
    areas.py       how well a signal ranks failures, and induced above inherent ones
    gating.py      withholding the most doubted answers, or giving the full run's instead
    contrasts.py   scores of arms, and their differences
    summaries.py   the radii of an answer as one number, in many ways
    search.py      which of these ways attributes best, on a pilot
    claims.py      the numbers that claims are about
"""
