# SPDX-License-Identifier: Apache-2.0
# memprofd: build, test, install. `make help` lists the targets.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

BUILD    ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
V        ?= 0
SANITIZE ?=
JOBS     ?= $(shell nproc)

ifeq ($(V),1)
  Q :=
  say = @:
else
  Q := @
  say = @printf '  %-8s %s\n' $(1) '$(strip $(2))'
endif

CC      := gcc
CXX     := g++
CLANG   := clang
ARCH    := $(shell uname -m)
WARN    := -Wall -Wextra -Werror
VERSION := $(shell sed -n 's/^\#\# \[\([0-9][0-9.]*\)\].*/\1/p' CHANGELOG.md 2>/dev/null | head -1)
VERSION := $(or $(VERSION),0.0.0)
# No path of the build's machine gets into a program: the same revision gives the same bytes anywhere.
PREFIX_MAP := -ffile-prefix-map=$(CURDIR)=.
SUBMAKE  = $(MAKE) --no-print-directory
# Makes goals with progress, and says first how long that will take: $(call make_goals,GOALS...).
make_goals = deploy/progress.py $(SUBMAKE) -j$(JOBS) $(1)

include bpf/bpf.mk
include dashboards/web/web.mk
include daemon/daemon.mk
include agent-lib/agent.mk
include agent-lib/ocaml.mk

.PHONY: all
all: $(BUILD)/memprofd $(BUILD)/memprofctl $(BUILD)/libmemprof_agent.so
all: $(if $(shell command -v ocamlfind),$(FINDLIB)/META)

# ---------------------------------------------------------------- run and install

.PHONY: deps demo install uninstall deb dist image
deps:
	$(Q)deploy/install-deps.sh
demo:
	$(Q)deploy/install-deps.sh build run
	$(Q)$(call make_goals,$(addprefix $(BUILD)/,memprofd memprofctl libmemprof_agent.so targets/demo_server))
	$(Q)tests/e2e/demo.sh $(BUILD)

MAN         := $(BUILD)/man/memprofd.8 $(BUILD)/man/memprofctl.1
COMPLETIONS := $(BUILD)/completions/memprofd $(BUILD)/completions/memprofctl
$(MAN) &: deploy/man-pages.py deploy/help_text.py $(BUILD)/memprofd $(BUILD)/memprofctl
	$(call say,MAN,$(MAN))
	$(Q)deploy/man-pages.py $(BUILD) $(BUILD)/man
$(COMPLETIONS) &: deploy/completions.py deploy/help_text.py $(BUILD)/memprofd $(BUILD)/memprofctl
	$(call say,COMPLETE,$(COMPLETIONS))
	$(Q)deploy/completions.py $(BUILD) $(BUILD)/completions

install: all $(MAN) $(COMPLETIONS)
	$(Q)deploy/install.sh install $(BUILD) '$(PREFIX)' '$(DESTDIR)'
uninstall:
	$(Q)deploy/install.sh uninstall $(BUILD) '$(PREFIX)' '$(DESTDIR)'
deb: all $(MAN) $(COMPLETIONS)
	$(Q)deploy/deb.sh $(BUILD)
dist:
	$(Q)deploy/install-deps.sh build run dist
	$(Q)$(SUBMAKE) -j$(JOBS) all dist-files
	$(Q)deploy/dist.sh $(BUILD)
image:
	$(Q)deploy/image.sh $(or $(IMAGE),memprofd:$(VERSION))

.PHONY: clean help
clean:
	$(Q)rm -rf $(BUILD)
help:
	$(Q)deploy/help.sh

include deploy/dist/dist.mk
include deploy/checks.mk
include tests/tests.mk
