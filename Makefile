# Everything a developer runs, one target each. `make test` is the whole gate.
#
# The virtual environment lives in .venv and is stamped with the hash of the lock file:
# as long as the lock is unchanged, no target installs anything. A Python that is named has one of
# its own beside it: `make unit PYTHON=python3.13` works in .venv-3.13.

PYTHON ?= python3
PYTHONS ?= python3.11 python3.12 python3.13
TRIES ?= 20000
KILLS ?= 30
SECONDS ?= 10
CLIENTS ?= 256
FAULTS ?= 60
PYTEST_ARGS ?=

VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
LOCK := requirements/dev.lock
hash = $(shell { sha256sum $1 || shasum -a 256 $1; } 2>/dev/null | cut -c1-16)
VENV_STAMP := $(VENV)/.stamp-lock-$(call hash,$(LOCK))
PACKAGE_STAMP := $(VENV)/.stamp-package
LINTED := $(wildcard src tests examples bench release)
TYPED := $(wildcard src examples release bench)

# Compiled code is kept, whatever the machine says: to compile all tests anew for each worker, and
# the package for each process that a test starts, takes a third of a run.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv run test compiled programs unit unit-all lint format bench bench-fronts bench-tokens bench-programs bench-scale bench-console attack crash crash-fronts soak scale clouds floors clients matrix coverage mutation typescript site first-minutes pictures release verify-release lock clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(VENV_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "The venv module is incomplete. On Debian or Ubuntu: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@touch $@

$(PACKAGE_STAMP): $(VENV_STAMP) pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-index --no-build-isolation -e .
	@touch $@

venv: $(PACKAGE_STAMP) ## Make the virtual environment.

# The embedded default, kept in the checkout and with something to look at in it.
DEMO := $(CURDIR)/.demo
IN_DEMO := XDG_DATA_HOME=$(DEMO)/data XDG_STATE_HOME=$(DEMO)/state

run: venv ## Start the server and its console on a demo workspace.
	@test -e $(DEMO)/data/bailiwick/workspace.db || { mkdir -p $(DEMO)/data/bailiwick && $(IN_DEMO) \
	  $(BIN)/bailiwick import examples sqlite:$(DEMO)/data/bailiwick/workspace.db --to examples >/dev/null \
	  && $(IN_DEMO) $(BIN)/bailiwick import docs sqlite:$(DEMO)/data/bailiwick/workspace.db --to docs >/dev/null; }
	@$(IN_DEMO) $(BIN)/bailiwick serve

# Whoever has done all of its tests takes some of another's: the slow ones stand together. Of all
# tests many wait, for servers and browsers: four at a time leave two processors nothing idle.
PARALLEL := -n 3 --dist worksteal
ALL_PARALLEL := -n 4 --dist worksteal

# Lint keeps one core busy: beside it the tests are compiled, which each worker did for itself.
test: venv ## The whole gate: lint, then every test.
	@$(MAKE) --no-print-directory -j 2 lint programs compiled
	$(BIN)/python -m pytest $(ALL_PARALLEL) -m "not scale" $(PYTEST_ARGS)

# What cannot be collected is told of when it is run.
compiled: venv
	@$(BIN)/python -m pytest --collect-only -q >/dev/null 2>&1 || true

# The console is tested in Chromium, sandboxes and exports of grants in bubblewrap, mounts by
# fusermount3. Whoever may install them gets them; elsewhere those tests say so.
PROGRAMS := chromium chromium-driver bubblewrap fuse3
programs:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null && command -v bwrap >/dev/null \
	  && command -v fusermount3 >/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	       && { apt-get install -qq -y $(PROGRAMS) >/dev/null 2>&1 \
	            || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
	                 apt-get install -qq -y $(PROGRAMS) >/dev/null; }; }; } \
	  || echo "Not all of the tests can run: apt install $(PROGRAMS)"

# The files of a quick look are kept in memory where there is room for them and programs may be run
# from it: what a disk adds is a quarter of the time. `make test` is for the disk.
IN_MEMORY = $(if $(TMPDIR),,$(shell test -w /dev/shm \
  && ! grep -Eqs '^[^ ]+ /dev/shm [^ ]+ [^ ]*noexec' /proc/mounts \
  && df -Pk /dev/shm | awk 'NR == 2 && $$4 >= 2000000 { print "TMPDIR=/dev/shm" }'))

# What needs neither a server, a browser, an attacker nor much time. In tests/hostile everything is
# an attack, and to import its targets takes as long as all the rest.
unit: venv ## The fast part of the tests.
	$(IN_MEMORY) $(BIN)/python -m pytest $(PARALLEL) -m "not hostile and not slow and not scale" --hypothesis-profile unit \
	  --ignore tests/fronts --ignore tests/client --ignore tests/hostile --ignore tests/test_docs.py \
	  $(PYTEST_ARGS)

unit-all: ## The fast part on every version of Python; PYTHONS="…" names the interpreters.
	@for python in $(PYTHONS); do $(MAKE) --no-print-directory unit PYTHON=$$python || exit 1; done

lint: venv ## Style, types and import layers.
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/mypy $(TYPED)
	$(BIN)/lint-imports

format: venv ## Rewrite the code in the house format.
	$(BIN)/ruff check --fix-only $(LINTED)
	$(BIN)/ruff format $(LINTED)

bench: venv ## Measure, and print ratios.
	$(BIN)/python -m bench

bench-fronts: venv ## Measure HTTP and MCP; writes bench/http.json and bench/mcp.json.
	$(BIN)/python -m bench.http --json bench/http.json
	$(BIN)/python -m bench.mcp --json bench/mcp.json

bench-tokens: venv ## Count what tools cost a model in tokens; writes bench/tokens.json.
	$(BIN)/python -m bench.tokens --json bench/tokens.json

bench-scale: venv ## Measure what a call takes as there is more of everything; writes bench/scale.json.
	$(BIN)/python -m bench.scale --json bench/scale.json

bench-console: venv ## Measure how a large run behaves in the browser; writes bench/console.json.
	$(BIN)/python -m tests.fronts.console.pace --json bench/console.json

bench-programs: venv ## Measure programs in the sandbox and in a mounted tree; writes bench/programs.json.
	$(BIN)/python -m bench.programs --json bench/programs.json

attack: venv ## A live attacker against every verb; TRIES=1000000 for the full figure.
	$(BIN)/python -m tests.hostile.attack --tries $(TRIES) $(if $(JSON),--json $(JSON))

crash: venv ## kill -9 at random instants; KILLS=1000 for the full figure.
	$(BIN)/python -m tests.hostile.crash --kills $(KILLS) $(if $(JSON),--json $(JSON))

crash-fronts: venv ## Two fronts on one directory, killed at random instants; KILLS=200 for the full figure.
	$(BIN)/python -m tests.build.past_worker --kills $(KILLS)

soak: venv ## A crowd at a real server; SECONDS=60 CLIENTS=256 for the full figure.
	$(BIN)/python -m tests.fronts.http.soak --seconds $(SECONDS) --clients $(CLIENTS) $(if $(JSON),--json $(JSON))

scale: venv ## Volumes and states on a real PostgreSQL, then three servers driven and killed; FAULTS=500 for more.
	$(BIN)/python -m pytest -n 2 tests/stores tests/state tests/fronts/test_front_contract.py tests/fronts/http/test_servers.py -k 'postgres or servers' $(PYTEST_ARGS)
	$(BIN)/python -m tests.stores.volume.pace $(if $(JSON),--json $(JSON))
	$(BIN)/python -m tests.scale --faults $(FAULTS)

# Azurite is too large for every run of the tests, so it is fetched here.
clouds: venv ## Blobs in what speaks like Azure and Google Cloud Storage.
	BAILIWICK_AZURITE=$${XDG_CACHE_HOME:-$$HOME/.cache}/bailiwick/npm-azurite \
	  $(BIN)/python -m pytest tests/stores/volume/test_clouds.py $(PYTEST_ARGS)

# An environment for each extra, which takes long: looked at before a floor is changed.
floors: venv ## Try the lowest versions that pyproject.toml allows; EXTRAS="openai mcp" for some.
	$(BIN)/python -m tests.floors $(EXTRAS)

matrix: venv ## The fast part on every Python from 3.11 on that is here or can be had.
	$(BIN)/python -m tests.matrix $(if $(JSON),--json $(JSON))

# Of the fast part alone: what only servers, browsers and attackers reach is not counted.
coverage: venv ## How much of the package the fast part of the tests runs.
	@rm -f .coverage .coverage.*
	$(IN_MEMORY) COVERAGE_CORE=sysmon $(BIN)/python -m coverage run -m pytest $(PARALLEL) -q --hypothesis-profile unit \
	  -m "not hostile and not slow and not scale" --ignore tests/hostile --ignore tests/test_docs.py $(PYTEST_ARGS)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --skip-covered --sort cover
	@$(if $(JSON),$(BIN)/python -m tests.covered $(JSON))

SAMPLE ?= 40
mutation: venv ## Make the core wrong in one place at a time; SAMPLE=1000 for every place.
	$(BIN)/python -m tests.mutation --sample $(SAMPLE) $(if $(JSON),--json $(JSON))

first-minutes: venv ## Each command of the first page, copied, in an empty home.
	$(BIN)/python -m tests.first_minutes

pictures: venv ## The pictures of the documentation, made anew in Chromium and a terminal.
	$(BIN)/python -m tests.pictures

SITE_VENV := .venv-site
SITE_STAMP := $(SITE_VENV)/.stamp-lock-$(call hash,requirements/site.lock)
$(SITE_STAMP):
	$(PYTHON) -m venv --clear $(SITE_VENV)
	$(SITE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/site.lock
	@touch $@

site: venv programs $(SITE_STAMP) ## Make the site of docs/ in build/site, and look at it in a browser.
	$(BIN)/python -m release.site
	NO_MKDOCS_2_WARNING=1 $(SITE_VENV)/bin/mkdocs build --quiet
	$(BIN)/python -m tests.site_check

# The compiler and the frameworks are too large for every run of the tests, so they are fetched here.
typescript: venv ## The TypeScript client: its tests, its types, and its examples in real frameworks.
	$(BIN)/python -m pytest -q tests/clients $(PYTEST_ARGS)
	$(BIN)/python -m tests.clients.trial

# What is only needed to look at a release has a lock and an environment of its own.
RELEASE_VENV := .venv-release
RELEASE_STAMP := $(RELEASE_VENV)/.stamp-lock-$(call hash,requirements/release.lock)
$(RELEASE_STAMP):
	$(PYTHON) -m venv --clear $(RELEASE_VENV)
	$(RELEASE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/release.lock
	@touch $@

release: venv $(RELEASE_STAMP) ## Make dist/ from the newest commit: built twice, installed, used.
	$(BIN)/python -m release build
	$(RELEASE_VENV)/bin/python release/schema_check.py dist/*.cdx.json

verify-release: venv ## Make the files of dist/ anew from the commit that they name, and compare.
	$(BIN)/python -m release verify

# Packages that are not in the lock, the newest of each: what the documentation shows is run with them.
clients: venv ## Frameworks by their real packages, in environments of their own; NAMES="strands adk" for some.
	$(BIN)/python -m tests.clients $(NAMES)

# The lock names versions and hashes only: where they are fetched from is the business of the
# machine that installs. That is why the header and the index address are left out.
lock: ## Write the lock file anew, with the newest versions that fit.
	$(PYTHON) -m venv --clear .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lock/bin/uv pip compile pyproject.toml --extra all --group dev --upgrade \
	  --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --quiet --output-file $(LOCK)
	.venv-lock/bin/uv pip compile pyproject.toml bench/requirements-peers.in --extra rg --upgrade \
	  --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --quiet --output-file bench/requirements-peers.txt
	for tools in release site; do .venv-lock/bin/uv pip compile requirements/$$tools.in --upgrade \
	  --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-header --quiet --output-file requirements/$$tools.lock || exit 1; done

clean: ## Remove everything that can be made again.
	rm -rf .venv .venv-* .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
