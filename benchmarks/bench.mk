# Measurements. Each prints what benchmarks/RESULTS.md quotes; none of them passes or fails, but that bench-peers fails when
# tickwork loses a timer.
BENCH := PYTHONPATH=functions:. $(BIN)/python -m

.PHONY: bench-cost
bench-cost: $(VENV)/.dev ## What a timer costs, step by step, beside others (TIMERS=10000)
	$(BENCH) benchmarks.cost --timers $(or $(TIMERS),10000)

.PHONY: quota-storm
quota-storm: $(VENV)/.dev $(MINISTACK)/.made ## A storm of creates against a quota over several processes: in virtual time, and a smaller one on the local endpoint
	TICKWORK_MINISTACK=$(MINISTACK)/bin/python $(BENCH) benchmarks.quotas --local $(ARGS)

.PHONY: bench-fan-out
bench-fan-out: $(VENV)/.dev ## How fast a fan-out creates its timers, and what it holds in memory (ARGS="--lines 2000000")
	$(BENCH) benchmarks.fan_out $(ARGS)

.PHONY: bench-price
bench-price: $(VENV)/.dev ## What a million runs and an idle month cost all in, beside EventBridge Scheduler (docs/price.md)
	$(BENCH) benchmarks.price

.PHONY: bench-idle
bench-idle: $(VENV)/.dev ## What a month costs with nothing due, and what looking ahead costs
	$(BENCH) benchmarks.idle

.PHONY: bench-scan
bench-scan: $(VENV)/.dev ## How fast a scanner fires, beside a bare loop of its boto3 calls
	$(BENCH) benchmarks.scan --rounds 9

.PHONY: bench-cold
bench-cold: $(VENV)/.dev ## What importing each Lambda's handler costs, beside bare boto3 clients
	$(BENCH) benchmarks.cold_start

.PHONY: bench-reconciler
bench-reconciler: $(VENV)/.dev ## One run of the reconciler at the design scale: 200,000 definitions, 50 million runs a day
	$(BENCH) benchmarks.reconciler $(ARGS)

.PHONY: bench-herd
bench-herd: $(VENV)/.dev ## How long a herd forecast takes: 200,000 definitions, 14 days (ARGS="--days 92")
	$(BENCH) benchmarks.herd $(ARGS)

.PHONY: bench-slots
bench-slots: $(VENV)/.dev ## How long runs wait for a slot at 95% load after a burst, beside first come, first served
	$(BENCH) benchmarks.slots $(ARGS)

.PHONY: bench-lag
bench-lag: $(VENV)/.dev $(MINISTACK)/.made node_modules/.made ## Fire lag on the deployed local stack by stage: steady, a burst, the highest rate (ARGS="--lead 20")
	$(BENCH) benchmarks.lag $(ARGS)

.PHONY: bench-lag-rate
bench-lag-rate: $(VENV)/.dev $(MINISTACK)/.made node_modules/.made ## Only the highest steady rate that the deployed local stack holds
	$(BENCH) benchmarks.lag --find-rate $(ARGS)

.PHONY: bench-scale
bench-scale: $(VENV)/.dev ## The design scale, simulated: lag by kind, busy scanners, hot partitions; QUICK=1: an eighth
	$(BENCH) benchmarks.scale $(if $(QUICK),--quick)

.PHONY: bench-fairness
bench-fairness: $(VENV)/.dev ## A team with a million timers due at once beside one with 100 a minute, simulated; weights; QUICK=1: an eighth
	$(BENCH) benchmarks.scale.fairness $(if $(QUICK),--quick) $(ARGS)

.PHONY: bench-outage
bench-outage: $(VENV)/.dev ## Three hours of outage with 40,000 hourly jobs under each overlap policy, simulated; QUICK=1: a thirty-second
	$(BENCH) benchmarks.scale.outage $(if $(QUICK),--quick) $(ARGS)

BULLMQ := benchmarks/peers/bullmq
$(BULLMQ)/node_modules/.made: $(BULLMQ)/package-lock.json
	npm ci --prefix $(BULLMQ) --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: bench-peers
bench-peers: $(VENV)/.dev $(MINISTACK)/.made .venv-peers/.made $(BULLMQ)/node_modules/.made ## Others beside tickwork, with a kill -9 (needs redis-server, Node; TIMERS=5000, some 25 minutes)
	@command -v redis-server >/dev/null && command -v redis-cli >/dev/null || { echo "Redis is missing: apt-get install redis-server" >&2; exit 1; }
	$(BENCH) benchmarks.peers --timers $(or $(TIMERS),5000)
