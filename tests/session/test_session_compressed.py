"""A compressed session: the stream condition, its certificates and receipts, and its memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from speaker import KV_HEADS, NUM_LAYERS, kept, make_engine, policy, random_ids, same_bits

from fewer import Answer, BadInput, Chunk, Engine, Policy, Prompt, Receipt, Request, Sampling
from fewer.session import Session

CONTEXT, QUESTION = random_ids(1, 60), random_ids(2, 7)
SAMPLING = {"max_tokens": 9, "ignore_eos": True, "logprobs": 1}
POLICIES = [
    policy(),
    policy("poisson:h2o", 24),
    policy("snapkv", 20),
    policy("systematic:snapkv", 20, radius="paper"),
    policy("tova", 16),
    policy("pivotal:snapkv", 20, heads="adaptive"),
    policy("streaming", 16),
    policy("poisson:snapkv", 24),
]


def make(engine: Engine, evict: Policy, **settings: int) -> Session:
    session = Session(engine, evict, **settings)
    session.append(CONTEXT)
    session.compress()
    return session


def ask(session: Session, question: list[int] = QUESTION, **settings: object) -> Answer:
    return session.ask(question, **{**SAMPLING, **settings})


def numbers(session: Session, answer: Answer) -> tuple[object, ...]:
    """What has to be the same to the bit where two sessions are the same."""
    read = [step.radius.tolist() for step in (*session.question_certificates, *session.answer_certificates)]
    return answer.ids, [entry.logprob for entry in answer.logprobs], answer.receipt.certificate, read


@pytest.mark.parametrize("evict", POLICIES, ids=lambda evict: f"{evict.name} {evict.budget.heads} {evict.radius}")
@pytest.mark.parametrize("family", ["llama-r2", "qwen3-sliding"])
def test_it_is_the_stream_condition_of_the_engine(family: str, evict: Policy, fp32: float) -> None:
    """One request that is compressed before the question exists draws the same rows and answers the same."""
    engine = make_engine(family)
    session = make(engine, evict, seed=5)
    size = len(CONTEXT) + len(QUESTION)
    protected = torch.ones(size, dtype=torch.bool)
    protected[: len(CONTEXT)] = False
    prompt = Prompt(torch.tensor(CONTEXT + QUESTION), protected, (Chunk("", 0, len(CONTEXT)),), (len(CONTEXT), size))
    theirs = engine.generate([Request(prompt, Sampling(seed=5, **SAMPLING), evict=replace(evict, moment="context"))])[0]
    mine = ask(session)
    assert mine.ids == theirs.ids
    assert [entry.logprob for entry in mine.logprobs] == pytest.approx([e.logprob for e in theirs.logprobs], abs=fp32)
    claim, other = mine.receipt.certificate, theirs.receipt.certificate
    assert claim.kind == other.kind == ("estimate" if evict.certified else "none")
    assert claim.steps == pytest.approx(other.steps, rel=fp32)
    (one,), (two,) = mine.receipt.eviction.compressions, theirs.receipt.eviction.compressions
    assert (one.num_seen, one.rows_before, one.rows_after, one.rows_by_pi) == (
        two.num_seen,
        two.rows_before,
        two.rows_after,
        two.rows_by_pi,
    )


def test_certificates_of_the_question_and_of_every_step(engine: Engine) -> None:
    session = make(engine, policy())
    answer = ask(session)
    heads = engine.adapter.num_heads
    assert [step.radius.shape for step in session.question_certificates] == [(NUM_LAYERS, heads, len(QUESTION))]
    assert [step.radius.shape for step in session.answer_certificates] == [(NUM_LAYERS, heads, 1)] * 8
    means = [float(step.radius.mean()) for step in session.answer_certificates]
    assert answer.receipt.certificate.steps == pytest.approx(means)
    again = ask(session, random_ids(3, 4))
    assert [step.radius.shape[2] for step in session.question_certificates] == [5]  # the last answer's last token too
    assert len(again.receipt.certificate.steps) == 8
    for silent in (policy("snapkv"), policy(certify=False), policy(estimator="plug-in")):
        quiet = make(engine, silent)
        assert ask(quiet).receipt.certificate.kind == "none"
        assert (quiet.question_certificates, quiet.answer_certificates) == ((), ())


def test_a_question_whose_weights_are_summed_in_several_goes(engine: Engine) -> None:
    session = make(engine, policy())
    answer = ask(session, random_ids(3, 300))  # three layers, then one
    (read,) = session.question_certificates
    assert read.radius.shape == (NUM_LAYERS, engine.adapter.num_heads, 300)
    assert bool((read.radius > 0).all())
    assert len(answer.receipt.certificate.steps) == 8


def test_what_is_read_between_is_certain_and_read_without_certificates(engine: Engine) -> None:
    session = make(engine, policy())
    session.append(random_ids(3, 10))
    answer = ask(session)
    assert [step.radius.shape[2] for step in session.question_certificates] == [len(QUESTION)]
    assert len(answer.receipt.certificate.steps) == 8
    for layer in kept(session):
        for head in layer:
            assert len(head) == 20 + 10 + len(QUESTION) + 8
            assert head[20:] == list(range(60, 60 + 10 + len(QUESTION) + 8))


@pytest.mark.parametrize(
    "evict", POLICIES[1:6:2], ids=lambda evict: f"{evict.name} {evict.budget.heads} {evict.radius}"
)
def test_forks_saves_rollbacks_and_single_questions_are_the_same_to_the_bit(
    engine: Engine, evict: Policy, tmp_path
) -> None:  # type: ignore[no-untyped-def]
    session = make(engine, evict, seed=2)
    ask(session, random_ids(7, 5))
    session.append(random_ids(8, 12))
    session.save(tmp_path / "one")
    others = [
        session.fork(),
        Session.load(tmp_path / "one", engine),
        Session.load(str(tmp_path / "one"), engine, evict),
    ]
    asked = session.fork()
    ask(asked, keep=False)
    back = session.fork()
    ask(back)
    back.compress()
    ask(back, random_ids(3, 3))
    back.rollback()
    assert back.num_seen == len(session.ids) + len(QUESTION) + 8
    undone = session.fork()
    undone.append(random_ids(4, 4))
    undone.compress()
    undone.rollback()
    expected = numbers(session, ask(session))
    for other in (*others, asked, undone):
        assert numbers(other, ask(other)) == expected
        assert other.ids == session.ids
        assert same_bits(other, session)
    assert same_bits(back, session) is False  # it was compressed once more
    for other in (session, *others, asked, undone):
        other.append(random_ids(9, 6))
        assert other.compress().num_evicted > 0
    expected = numbers(session, ask(session, random_ids(10, 4)))
    for other in (*others, asked, undone):
        assert numbers(other, ask(other, random_ids(10, 4))) == expected
        assert same_bits(other, session)
        assert [each.num_seen for each in other.evictions] == [each.num_seen for each in session.evictions]


def test_questions_over_one_context_do_not_depend_on_each_other(engine: Engine) -> None:
    session = make(engine, policy())
    questions = [random_ids(seed, 3 + seed) for seed in range(4)]
    forth = [numbers(session, ask(session, one, keep=False)) for one in questions]
    back = [numbers(session, ask(session, one, keep=False)) for one in reversed(questions)]
    assert forth == back[::-1]
    assert session.ids == tuple(CONTEXT)
    assert len({answer for answer, *_ in forth}) > 1


def test_two_compressed_sessions_interleaved(engine: Engine) -> None:
    evicts = [policy(), policy("poisson:snapkv", 24)]
    alone = []
    for evict in evicts:
        session = make(engine, evict)
        alone.append([numbers(session, ask(session, random_ids(turn, 4))) for turn in range(3)])
    sessions = [make(engine, evict) for evict in evicts]
    mixed: list[list[object]] = [[], []]
    for turn in range(3):
        for session, found in zip(sessions, mixed, strict=True):
            found.append(numbers(session, ask(session, random_ids(turn, 4))))
    assert mixed == alone


def test_compressing_again_does_nothing_until_something_was_read(engine: Engine) -> None:
    session = make(engine, policy("h2o"))
    assert session.compress() is None
    assert len(session.evictions) == 1
    ask(session)
    eviction = session.compress()
    assert eviction.num_seen == 60 + len(QUESTION) + 8
    assert bool((eviction.rows_after == 20).all())


def test_after_a_compression_the_cache_is_the_budget(engine: Engine) -> None:
    session = Session(engine, policy())
    row = 2 * KV_HEADS * 12 * 4
    for turn in range(4):
        session.append(random_ids(turn, 70))
        session.compress()
        assert session.nbytes == NUM_LAYERS * row * (20 + 64)  # 64 rows are reserved
    assert len(session.ids) == session.num_seen == 280


@pytest.mark.parametrize("name", ["snapkv", "systematic:snapkv", "h2o"])
def test_block_and_every_bound_what_the_cache_ever_holds(engine: Engine, name: str) -> None:
    session = Session(engine, policy(name, 20, block=8, every=6))
    session.append(CONTEXT)
    for turn in range(3):
        ask(session, random_ids(turn, 11))
        ask(session, random_ids(turn, 3), keep=False)
        session.append(random_ids(turn, 13))
        assert all(len(head) <= 20 + 8 for layer in kept(session) for head in layer)
    assert len(session.evictions) > 12
    for each in session.evictions:
        assert int(each.rows_before.max()) <= 20 + 8
        assert int(each.rows_after.max()) == 20
    seen = [each.num_seen for each in session.evictions]
    assert seen == sorted(set(seen))
    assert session._keeper.most_bytes <= 2 * KV_HEADS * 12 * 4 * NUM_LAYERS * (28 + 64 + 256)


def test_an_answer_longer_than_a_block_is_compressed_before_the_next_reading(engine: Engine) -> None:
    session = Session(engine, policy(block=8))
    session.append(CONTEXT)
    ask(session, max_tokens=30)
    assert max(len(head) for layer in kept(session) for head in layer) > 40
    session.append([1])
    assert max(len(head) for layer in kept(session) for head in layer) == 20 + 2


def test_receipts_say_what_this_answer_computed(engine: Engine) -> None:
    session = Session(engine, policy())
    session.append(CONTEXT)
    early = ask(session, keep=False).receipt
    assert early.bypass == ("nothing was compressed yet",)
    assert early.eviction.compressions == ()
    session.compress()
    for number, answer in enumerate([ask(session), ask(session, random_ids(3, 4))]):
        receipt = answer.receipt
        read = len(QUESTION) if not number else 5  # with the last token of the answer before
        before = 60 if not number else 60 + len(QUESTION) + 8
        assert receipt.prompt.num_tokens == before + read
        assert receipt.prompt.num_protected == read
        (chunk,) = receipt.prompt.chunks
        assert (chunk.title, chunk.start, chunk.stop) == ("read earlier", 0, before)
        assert chunk.kept_per_layer == (0,) * NUM_LAYERS
        assert receipt.computed.prefill_rows_per_layer == (read,) * NUM_LAYERS
        assert receipt.computed.token_layers_computed == (read + 8) * NUM_LAYERS
        assert receipt.prompt.num_before == before  # read before, which is no saving of this answer
        assert receipt.computed.token_layers_full == receipt.computed.token_layers_computed
        assert receipt.computed.token_layers_skipped == 0
        assert [each.num_seen for each in receipt.eviction.compressions] == [60]
        assert receipt.bypass == ()
        assert 0 < receipt.seconds.prefill_s <= receipt.seconds.total_s
        assert receipt.seconds.evict_s == pytest.approx(sum(each.evict_s for each in receipt.eviction.compressions))
        rows = 20 + before - 60 + read + 8
        assert receipt.memory.kv_used_bytes_per_layer == (rows * 2 * KV_HEADS * 12 * 4,) * NUM_LAYERS
        assert receipt.memory.kv_bytes_full_estimate == ((before + read + 8) * 2 * KV_HEADS * 12 * 4,) * NUM_LAYERS
        assert Receipt.model_validate_json(receipt.to_json()) == receipt
    whole = Session(engine, policy(budget=400))
    whole.append(CONTEXT)
    whole.compress()
    assert ask(whole).receipt.bypass == ("the budget covers every row of the cache",)


def test_a_budget_too_small_is_refused_and_nothing_is_lost(engine: Engine) -> None:
    session = Session(engine, policy(budget="5%"))
    session.append(CONTEXT)
    with pytest.raises(BadInput, match="at least 7 rows"):
        session.compress()
    assert len(kept(session)[0][0]) == 60
    assert ask(session).ids == ask(make(engine, policy(budget=400))).ids
