# People and CI use the same targets. Each target first checks that its few system packages are installed (scripts/deps).
# As root it installs the missing ones, otherwise it prints the command that installs them.

CARGO ?= cargo
PROGRAM ?= target/release/longhaul
# These are installed together with docs/, because the documents there link to them.
TOP_DOCUMENTS := README.md ARCHITECTURE.md CONTRIBUTING.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT
# Where gdb and Rust's backtraces look for the debug symbols of /usr/bin/longhaul.
SYMBOLS := /usr/lib/debug/usr/bin/longhaul.debug
# The recipes of install and uninstall do not quote DESTDIR.
$(if $(word 2,$(DESTDIR))$(findstring %,$(DESTDIR)),$(error DESTDIR has a blank or a percent sign))
# The directories of rustup's cargo, and of `ip` and `sshd`, which Debian leaves out of an ordinary user's PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

.PHONY: help build demo readme-table test test-systemd test-kernels test-resets test-all lint texts fuzz bench deps install uninstall clean

help:            ## lists the targets (the default)
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 24

build:           ## builds the program: target/release/longhaul; its debug symbols are in longhaul.debug beside it
	scripts/deps build
	$(CARGO) build --release --locked --bin longhaul
	scripts/split-symbols target/release/longhaul

demo: build      ## copies between two old hosts, 63 ms apart: direct, socat, HAProxy, longhaul (`make demo ARGS="--rtt 100ms"`)
	scripts/deps demo
	scripts/demo $(ARGS)

readme-table: build ## writes README's table from five undisturbed runs of the demo (10 to 30 minutes, on a quiet machine)
	scripts/deps demo
	scripts/readme-table

test:            ## runs every test; ends with the skipped tests and the reasons
	scripts/deps test
	CARGO="$(CARGO)" scripts/test

test-systemd: build ## tests the units under a systemd that is PID 1 in its own namespaces (as root, a minute)
	scripts/deps test-systemd
	scripts/test-systemd $(ARGS)

test-kernels:    ## tests endings, options and fast open on Debian's 5.10, 6.1 and ppc64le in qemu (`make test-kernels ARGS=5.10`)
	scripts/deps test-kernels
	scripts/test-kernels $(ARGS)

test-resets: build ## tests that each host learns of a reset within 15 s over a lossy WAN (as root, three minutes)
	scripts/deps demo
	target/release/longhaul lab run resets

test-all:        ## runs all four, and writes the results to docs/tested.md
	scripts/test-all $(ARGS)

lint:            ## checks formatting, clippy, rustdoc, scripts, units, links, the house rules
	scripts/deps lint
	scripts/lint

texts:           ## updates the checked-in texts that come from tables (help, manuals' tables, messages); read the diff
	UPDATE=1 $(CARGO) test --quiet -p longhaul-config -p longhaul-link
	UPDATE=1 $(CARGO) test --quiet -p longhaul-lab --lib
	UPDATE=1 $(CARGO) test --quiet -p longhaul-doctor --lib
	UPDATE=1 $(CARGO) test --quiet -p longhaul --lib docs_metrics_md
	UPDATE=1 TRYCMD=overwrite $(CARGO) test --quiet -p longhaul --test cli --test scenario

fuzz:            ## runs each fuzz target for 30 s (`make fuzz TIME=300`)
	scripts/deps fuzz
	scripts/fuzz $(or $(TIME),30)

bench: build     ## measures everything in docs/benchmarks.md again (as root; `make bench ARGS="--only one-hop"`)
	scripts/deps bench
	$(if $(ARGS),,$(CARGO) test --release --locked -p longhaul --test lab_precise -- --test-threads 1)
	benches/run $(ARGS)

deps:            ## installs the system packages of all targets
	scripts/deps build demo test test-systemd test-kernels lint fuzz bench

install:         ## installs into DESTDIR: the program, its debug symbols, man pages, units, sysctls, documents, a sample file
	@test -x $(PROGRAM) || { echo "longhaul: nothing to install; first: make build" >&2; exit 1; }
	install -D -m 755 $(PROGRAM) $(DESTDIR)/usr/bin/longhaul
	# `cargo build --release` alone leaves the symbols in the program.
	test ! -e $(PROGRAM).debug || install -D -m 644 $(PROGRAM).debug $(DESTDIR)$(SYMBOLS)
	install -d $(DESTDIR)/usr/share/man/man1 $(DESTDIR)/usr/share/bash-completion/completions
	umask 022 && $(PROGRAM) man --out $(DESTDIR)/usr/share/man/man1
	umask 022 && $(PROGRAM) completions bash >$(DESTDIR)/usr/share/bash-completion/completions/longhaul
	install -D -m 644 -t $(DESTDIR)/usr/lib/systemd/system packaging/longhaul.service packaging/longhaul@.service
	install -D -m 644 packaging/90-longhaul.conf $(DESTDIR)/usr/lib/sysctl.d/90-longhaul.conf
	install -D -m 644 packaging/longhaul-modules.conf $(DESTDIR)/usr/lib/modules-load.d/longhaul.conf
	install -D -m 644 -t $(DESTDIR)/usr/share/longhaul packaging/longhaul.socket packaging/net-admin.conf
	install -D -m 644 -t $(DESTDIR)/usr/share/longhaul/prometheus packaging/prometheus/scrape.yml packaging/prometheus/rules.yml
	install -D -m 644 -t $(DESTDIR)/usr/share/longhaul/grafana packaging/grafana/longhaul.json
	install -D -m 644 -t $(DESTDIR)/usr/share/longhaul/keepalived packaging/keepalived/keepalived.conf packaging/keepalived/longhaul.toml
	install -D -m 644 -t $(DESTDIR)/usr/share/longhaul/haproxy packaging/haproxy/longhaul.cfg packaging/haproxy/longhaul.toml
	install -D -m 644 -t $(DESTDIR)/usr/share/doc/longhaul $(TOP_DOCUMENTS)
	install -D -m 644 -t $(DESTDIR)/usr/share/doc/longhaul/docs docs/*.md docs/*.png
	install -D -m 644 -t $(DESTDIR)/usr/share/doc/longhaul/docs/design docs/design/*.md
	test -e $(DESTDIR)/etc/longhaul/longhaul.toml || \
		install -D -m 644 packaging/longhaul.toml $(DESTDIR)/etc/longhaul/longhaul.toml
	@echo "To put it in force without a reboot, with round trip and rate of your path:"
	@echo "sudo systemctl daemon-reload && sudo longhaul tune --rtt 63ms --rate 1Gbit/s"

uninstall:       ## removes the files of `make install` from DESTDIR; /etc/longhaul stays
	@test ! -e $(DESTDIR)/var/lib/longhaul/tune.json || \
		{ echo "longhaul: restore the sysctls first: sudo longhaul tune --rollback" >&2; exit 1; }
	rm -f $(DESTDIR)/usr/bin/longhaul $(DESTDIR)$(SYMBOLS) $(DESTDIR)/usr/share/bash-completion/completions/longhaul
	rm -f $(DESTDIR)/usr/share/man/man1/longhaul.1 $(DESTDIR)/usr/share/man/man1/longhaul-*.1
	rm -f $(DESTDIR)/usr/lib/systemd/system/longhaul.service $(DESTDIR)/usr/lib/systemd/system/longhaul@.service
	rm -f $(DESTDIR)/usr/lib/sysctl.d/90-longhaul.conf $(DESTDIR)/usr/lib/modules-load.d/longhaul.conf
	rm -f $(DESTDIR)/usr/share/longhaul/longhaul.socket $(DESTDIR)/usr/share/longhaul/net-admin.conf
	rm -f $(DESTDIR)/usr/share/longhaul/prometheus/scrape.yml $(DESTDIR)/usr/share/longhaul/prometheus/rules.yml
	rm -f $(DESTDIR)/usr/share/longhaul/grafana/longhaul.json
	rm -f $(DESTDIR)/usr/share/longhaul/keepalived/keepalived.conf $(DESTDIR)/usr/share/longhaul/keepalived/longhaul.toml
	rm -f $(DESTDIR)/usr/share/longhaul/haproxy/longhaul.cfg $(DESTDIR)/usr/share/longhaul/haproxy/longhaul.toml
	rm -f $(patsubst %,$(DESTDIR)/usr/share/doc/longhaul/%,$(TOP_DOCUMENTS) $(wildcard docs/*.md docs/*.png docs/design/*.md))
	for folder in $(patsubst %,share/longhaul/%,prometheus grafana keepalived haproxy) share/longhaul \
		share/doc/longhaul/docs/design share/doc/longhaul/docs share/doc/longhaul; do \
		test ! -d $(DESTDIR)/usr/$$folder || rmdir --ignore-fail-on-non-empty $(DESTDIR)/usr/$$folder || exit 1; done
	@echo "Kept: $(DESTDIR)/etc/longhaul. Units that run are not stopped:"
	@echo "docs/install.md, \"Removing it\""

clean:           ## removes everything that the other targets built
	$(CARGO) clean
	rm -rf fuzz/target fuzz/artifacts
