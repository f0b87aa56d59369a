# SPDX-License-Identifier: Apache-2.0
# The kernel side: BPF objects, and the skeletons that the daemon loads them with.

BPFTOOL := $(shell command -v bpftool 2>/dev/null || echo /usr/sbin/bpftool)
BPF_ARCH := $(subst aarch64,arm64,$(subst x86_64,x86,$(ARCH)))
BPF_CFLAGS := -target bpf -D__TARGET_ARCH_$(BPF_ARCH) -mcpu=v3 -O2 -g $(PREFIX_MAP) -Wall -Werror -I. -Iagent-lib/include \
              -I/usr/include/$(ARCH)-linux-gnu
BPF_HEADERS := $(wildcard bpf/*.h) agent-lib/include/memprof_agent_abi.h agent-lib/include/memprof_native_heap_abi.h
SKEL := $(patsubst %,$(BUILD)/gen/%.skel.h,memprof tasks safe_point calls)

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c $(BPF_HEADERS)
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@
.SECONDARY:
$(BUILD)/gen/%.skel.h: $(BUILD)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@
