# Deployment: the functions' package, the templates, AWS, and the end-to-end test. Included by the Makefile.

CDK := node_modules/.bin/cdk
CDK_APP := $(BIN)/python -m infra.app

# Node 20 runs the CDK well, and says at length on each run that it is old.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION ?= 18,20

node_modules/.made: package-lock.json
	@command -v npm >/dev/null || { echo "Node and npm are missing: install Node 20 or later; only the CDK needs it" >&2; exit 1; }
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: asset
asset: $(VENV)/.dev ## Build the functions' package for AWS (arm64), and print its size
	$(BIN)/python -m infra.asset

.PHONY: synth
synth: $(VENV)/.dev node_modules/.made ## Synthesize dev, staging and prod into cdk.out: no account, no network
	$(CDK) synth --quiet --app "$(CDK_APP)"

.PHONY: infra-test
infra-test: $(VENV)/.dev ## Test the templates: recovery, grants, cdk-nag (needs Node)
	$(BIN)/pytest tests/infra

.PHONY: known-env
known-env:
	@[[ "$(ENV)" =~ ^(dev|staging|prod)$$ ]] || { echo "say which environment: make deploy ENV=dev (or staging, prod)" >&2; exit 1; }

.PHONY: deploy
deploy: known-env asset node_modules/.made ## Deploy to AWS: make deploy ENV=dev|staging|prod (FIRST=1: the first time of one that keeps its data)
	$(CDK) deploy tickwork-$(ENV) --strict -c env=$(ENV) $(if $(FIRST),-c first=true) --app "$(CDK_APP)"

.PHONY: bootstrap
bootstrap: node_modules/.made ## Once for an account and region: make bootstrap ACCOUNT=123456789012 REGION=eu-central-1
	@[[ "$(ACCOUNT)" =~ ^[0-9]{12}$$ && -n "$(REGION)" ]] || { echo "say where: make bootstrap ACCOUNT=123456789012 REGION=eu-central-1" >&2; exit 1; }
	$(CDK) bootstrap aws://$(ACCOUNT)/$(REGION) -c env=dev --app "$(CDK_APP)"

.PHONY: e2e
e2e: $(VENV)/.dev $(MINISTACK)/.made node_modules/.made ## Deploy onto a local endpoint and run timers through it (ENDPOINT=http://... for one that runs already)
	E2E_ENDPOINT="$(ENDPOINT)" $(BIN)/pytest tests/e2e

.PHONY: failures
failures: $(VENV)/.dev node_modules/.made ## Each failure: who is delayed and how long, who hears of it within how many minutes
	PYTHONPATH=functions:. $(BIN)/python -m tests.infra.failures
