# SPDX-License-Identifier: Apache-2.0
# The page, and the page that holds one profile, as headers that the daemon embeds.
#
# npm works in $(WEB), which holds node_modules and links to the sources: nothing is written beside
# the sources. esbuild, the only package with an install script, works without running it.

WEB          ?= $(BUILD)/web
WEB_HERE     := dashboards/web
WEB_SRC      := $(shell find $(WEB_HERE) -type f)
WEB_ASSETS   := $(BUILD)/gen/web_assets.h
FLAME_ASSETS := $(BUILD)/gen/flamegraph_assets.h
ASSETS       := $(WEB_ASSETS) $(FLAME_ASSETS)

$(WEB)/node_modules/.package-lock.json: $(WEB_HERE)/package.json $(WEB_HERE)/package-lock.json
	$(call say,NPM,$(WEB))
	$(Q)command -v npm > /dev/null || { echo 'npm is missing, which builds the page: run make deps' >&2; exit 1; }
	$(Q)mkdir -p $(WEB) && cp $^ $(WEB)/
	$(Q)cd $(WEB) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error > /dev/null

# The messages of the API as TypeScript types.
WEB_MESSAGES := $(WEB)/gen/messages.ts
WEB_PROTO    := $(addprefix proto/memprof/v1/,profiler.proto heaps.proto rss.proto values.proto)
$(WEB_MESSAGES:.ts=.stamp): $(WEB_PROTO) $(WEB_HERE)/messages.py
	$(call say,PROTOC,$(WEB_MESSAGES))
	$(Q)mkdir -p $(@D)
	$(Q)protoc -Iproto --descriptor_set_out=$(@D)/messages.pb $(WEB_PROTO:proto/%=%)
	$(Q)/usr/bin/python3 $(WEB_HERE)/messages.py $(@D)/messages.pb > $(WEB_MESSAGES).new
	$(Q)cmp -s $(WEB_MESSAGES).new $(WEB_MESSAGES) || mv $(WEB_MESSAGES).new $(WEB_MESSAGES)
	$(Q)touch $@
$(WEB_MESSAGES): $(WEB_MESSAGES:.ts=.stamp) ;

WEB_LINKS := $(addprefix $(CURDIR)/$(WEB_HERE)/,index.html src tsconfig.json vite.config.ts vite.offline.config.ts)
$(WEB)/dist/index.html: $(WEB)/node_modules/.package-lock.json $(WEB_SRC) $(WEB_MESSAGES)
	$(call say,VITE,$@)
	$(Q)ln -sfn $(WEB_LINKS) $(WEB)/
	$(Q)cd $(WEB) && node_modules/.bin/tsc --noEmit && node_modules/.bin/vite build --logLevel warn && \
	  node_modules/.bin/vite build --logLevel warn --config vite.offline.config.ts

$(WEB_ASSETS): $(WEB)/dist/index.html deploy/embed.sh
	$(call say,EMBED,$@)
	$(Q)deploy/embed.sh $@ web_assets kPage $(<D)/index.html kScript $(<D)/page.js kStyle $(<D)/page.css
OFFLINE := $(WEB)/dist-offline/offline
$(FLAME_ASSETS): $(WEB_HERE)/offline.html $(WEB)/dist/index.html deploy/embed.sh
	$(call say,EMBED,$@)
	$(Q)deploy/embed.sh $@ flamegraph_assets kTemplate $< kStyle $(OFFLINE).css kScript $(OFFLINE).js
