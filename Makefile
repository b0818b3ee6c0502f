# Two commands matter: `make demo` and `make test`. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
SERVICES := .venv-services
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check

TASK ?= How many minutes longer is the day in Oslo than in Rome on 21 June 2026? Answer with the number of minutes.
TOOLS ?= --tools atlas --only find_cities --only get_city --only sun_times

SANDBOX ?=
IMAGE ?= atc-sandbox
BASE ?= python:3.11-slim
BUILD ?=

# Servers of others that the slow tests speak to, in an environment of their own.
MCP_SERVERS := 'mcp-server-fetch>=2026.10' 'mcp-server-git>=2026.10' 'mcp-server-time>=2026.10'

.PHONY: demo test test-slow lint image services docker-engine docker-image bench-tasks clean

# The model is named: a key or an endpoint in the environment is not used for it.
demo: $(if $(filter docker%,$(SANDBOX)),docker-engine $(VENV)/.docker docker-image) $(VENV)/.demo  ## a real task over real tools with a real language model on this machine; SANDBOX=docker: in a container
	@$(BIN)/atc model pull
	$(if $(SANDBOX),ATC_SANDBOX_IMAGE=$(IMAGE) )$(BIN)/atc run "$(TASK)" $(TOOLS) --model embedded $(if $(SANDBOX),--sandbox $(SANDBOX))

test: $(VENV)/.test  ## the tests: quick and offline
	$(BIN)/python -m pytest -m "not slow"

test-slow: $(VENV)/.demo $(VENV)/.test services  ## the tests that take long, tasks with the embedded model among them
	-$(BIN)/atc model pull
	-@$(MAKE) --no-print-directory $(VENV)/.mcp-servers
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

docker-engine:
	@docker version >/dev/null 2>&1 || { echo "no Docker engine answers: start Docker (or set DOCKER_HOST), or leave SANDBOX=docker out"; exit 1; }

docker-image: docker-engine
	@docker image inspect $(IMAGE) >/dev/null 2>&1 || $(MAKE) --no-print-directory image

bench-tasks: $(VENV)/.demo $(VENV)/.test  ## the ruler (docs/ruler.md): DATA=dir with the third-party tasks, ARGS="--quick"
	@$(BIN)/atc model pull
	$(BIN)/python -m benchmarks.tasks $(if $(DATA),--data "$(DATA)") $(ARGS)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ATC needs Python 3.11 or later: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[atlas,embedded]'
	@touch $@

$(VENV)/.docker: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[docker]'
	@touch $@

$(VENV)/.mcp-servers: Makefile
	$(PYTHON) -m venv $(VENV)/mcp-servers
	$(VENV)/mcp-servers/bin/python -m pip install $(PIP_FLAGS) $(MCP_SERVERS)
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) $(SERVICES) build dist *.egg-info
