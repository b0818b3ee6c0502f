# Two commands matter: `make demo` and `make test`. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
SERVICES := .venv-services
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check

TASK ?= How many minutes longer is the day in Oslo than in Rome on 21 June 2026? Answer with the number of minutes.
TOOLS ?= --tools atlas --only find_cities --only get_city --only sun_times

IMAGE ?= atc-sandbox
BASE ?= python:3.11-slim
BUILD ?=

.PHONY: demo test test-slow lint image services bench-tasks clean

demo: $(VENV)/.demo  ## a real task over real tools with a real language model on this machine
	@$(BIN)/atc model pull
	$(BIN)/atc run "$(TASK)" $(TOOLS)

test: $(VENV)/.test  ## the tests: quick and offline
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(VENV)/.demo $(VENV)/.test services  ## the tests that take long, one task with the embedded model among them
	-$(BIN)/atc model pull
	$(BIN)/python -m pytest -m slow -rs

services:  ## services of others, from the package index, in an environment of their own; the tests that need them skip without
	-@[ -f $(SERVICES)/.done ] || { $(PYTHON) -m venv $(SERVICES) && \
	  $(SERVICES)/bin/python -m pip install $(PIP_FLAGS) httpbin gunicorn datasette kinto waitress && touch $(SERVICES)/.done; }

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

image:  ## the image of the docker sandbox and of the service; BUILD="--network host" where containers have no network
	docker build $(BUILD) --build-arg BASE=$(BASE) -t $(IMAGE) .

bench-tasks: $(VENV)/.demo $(VENV)/.test  ## the ruler (docs/ruler.md): DATA=dir with the third-party tasks, ARGS="--quick"
	@$(BIN)/atc model pull
	$(BIN)/python -m benchmarks.tasks $(if $(DATA),--data "$(DATA)") $(ARGS)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ATC needs Python 3.11 or later: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[atlas,embedded]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) $(SERVICES) build dist *.egg-info
