# SPDX-License-Identifier: Apache-2.0
# The programs of a release: linked with archives, so that they need no library of a distribution but
# glibc, 2.34 or later. `make dist` packs them (deploy/dist.sh).

DIST        := $(BUILD)/dist
DIST_STATIC := microhttpd gnutls hogweed nettle gmp tasn1 idn2 unistring ssl crypto yaml-cpp bpf elf sqlite3 zstd \
               crypt ncursesw tinfo
# Debian has only shared libraries of these: they are compiled from its source packages.
DIST_BUILT  := $(addprefix $(DIST)/lib,prometheus-cpp-core.a spdlog.a fmt.a)
# GnuTLS needs p11-kit, which cannot be an archive: it comes in lib/memprofd of the release.
DIST_LIBS    = $(call static_libs,$(1) $(DIST_STATIC)) -lp11-kit -static-libstdc++ -static-libgcc \
               -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../lib/memprofd'
# Packages whose code is in the programs and that contain none of these archives.
DIST_HEADERS := prometheus-cpp-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev libp11-kit0 libffi8
OLDER_GLIBC := $(DIST)/older_glibc.o

.PHONY: dist-files
dist-files: $(DIST)/memprofd $(DIST)/memprofctl $(DIST)/licences/.complete $(BUILD)/libmemprof_agent.a $(MAN) $(COMPLETIONS)

$(DIST_BUILT) &: deploy/dist/archives.sh
	$(call say,AR,$(DIST_BUILT))
	$(Q)$(if $(STATICS),,echo 'libgrpc++.a is missing: make dist needs Debian 12' >&2; exit 1;) CXX='$(CXX)' deploy/dist/archives.sh $(DIST)
$(OLDER_GLIBC): deploy/dist/older_glibc.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 $(PREFIX_MAP) $(WARN) -fPIC -fvisibility=hidden -c $< -o $@
$(DIST)/memprofd: $(MAIN_OBJ) $(VERSION_OBJ) $(BUILD)/libmemprofd.a $(DIST_BUILT) $(OLDER_GLIBC)
	$(call link,$(MAIN_OBJ) $(OLDER_GLIBC),$(call DIST_LIBS,grpc++_reflection grpc++ grpc))
$(DIST)/memprofctl: $(CTL_OBJ) $(VERSION_OBJ) $(BUILD)/libmemprofctl.a $(BUILD)/libmemprofd.a $(DIST_BUILT) $(OLDER_GLIBC)
	$(call link,$(CTL_OBJ) $(OLDER_GLIBC),$(call DIST_LIBS,grpc++ grpc))

# The licences of all libraries whose code is in the release: a file for each package.
$(DIST)/licences/.complete: deploy/dist/dist.mk
	$(call say,COPY,$(@D))
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)archives=$$(for name in $(DIST_STATIC) grpc++ protobuf re2 cares absl_base z stdc++; do \
	    $(CXX) -print-file-name=lib$$name.a; done) && \
	  packages=$$(dpkg-query --search $$(realpath $$archives) | cut -d: -f1) && \
	  for package in $$packages $(DIST_HEADERS); do cp -L /usr/share/doc/$$package/copyright $(@D)/$$package || exit 1; done
	$(Q)touch $@
