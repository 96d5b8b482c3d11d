# Everything runs in .venv, which the first command makes from Python and pyproject.toml.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test slow lint format bench docs clean
.DELETE_ON_ERROR:

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

demo: .venv/ready  ## the whole flow on data that ships with scikit-learn
	$(BIN)/rado demo

test: .venv/ready  ## all tests but the slow ones
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'not slow'

slow: .venv/ready  ## the slow tests, and those with random examples over many more of them
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -q -n 2 --dist worksteal -m 'slow or hypothesis'

lint: .venv/ready  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/ready  ## put the code in shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# All of them run; it fails at the end where a figure of any falls short.
bench: .venv/ready  ## speed, privacy and accuracy against peers; accuracy needs RADO_DATA
	@short=; for name in crafting signatures learning predicting protocol audits exact_audits private beyond_linear large_file streams sparse clusters holders mailbox_load utility classes learners private_bounds exact_moments polynomials hospital shrinkage; do \
		echo $(BIN)/python benchmarks/$$name.py; \
		$(BIN)/python benchmarks/$$name.py || short="$$short $$name"; \
	done; \
	test -z "$$short" || { echo "falls short:$$short" >&2; exit 1; }

docs: .venv/docs  ## the documentation, in site/; fails where a link leads nowhere or a page loads something from elsewhere
	$(BIN)/python docs/make_cli_page.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # not --quiet, which would let warnings pass
	$(BIN)/python docs/check_site.py

clean:
	rm -rf .venv site dist rado-demo rado-reproduce rado-attacks .hypothesis .mypy_cache .ruff_cache
