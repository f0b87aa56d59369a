// SPDX-License-Identifier: Apache-2.0
// A kernel side for a ProbeTarget. Needs root.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "daemon/attach/kernel/kernel_side.h"
#include "tests/bpf/synthetic_stack.h"
#include "tests/kernel/probe_target.h"

namespace memprofd {

// Offset in this program's file of something at an address in memory.
inline std::uint64_t file_offset(const volatile void* pointer) {
  struct Search {
    std::uint64_t address;
    std::uint64_t offset;
  } search{reinterpret_cast<std::uint64_t>(pointer), 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const std::uint64_t begin = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_LOAD && s.address >= begin &&
              s.address < begin + segment.p_filesz)
            s.offset = s.address - begin + segment.p_offset;
        }
        return 1;  // the first object is the program
      },
      &search);
  return search.offset;
}

template <typename T>
std::uint64_t offset_of(T* function) {
  return file_offset(reinterpret_cast<const void*>(function));
}

template <typename T>
AddressRange range(T* begin, const char* end) {
  return {reinterpret_cast<std::uint64_t>(begin), reinterpret_cast<std::uint64_t>(end)};
}

struct Record {
  std::vector<std::byte> bytes;

  template <typename T>
  const T& as() const {
    return *reinterpret_cast<const T*>(bytes.data());
  }
  std::uint32_t kind() const { return as<memprof_event_header>().kind; }
  std::vector<std::uint64_t> frames() const {
    const auto& capture = as<memprof_capture>();
    EXPECT_EQ(bytes.size(), sizeof(memprof_capture) + capture.n_entries * 8);
    return expand_entries(reinterpret_cast<const std::uint64_t*>(capture.entries),
                          capture.n_entries);
  }
};

// A kernel side with its ring, as one thread has both.
struct LoadedSide {
  std::unique_ptr<KernelSide> kernel;
  std::unique_ptr<EventRing> ring;

  KernelSide* operator->() const { return kernel.get(); }
  KernelSide& operator*() const { return *kernel; }
};

class KernelSideTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    std::mt19937_64 random(5);
    functions_ = random_functions(random, 200);
    program_.add({functions_});
  }

  KernelConfig config() {
    return {.pid = target_->pid(),
            .domain_state = reinterpret_cast<std::uint64_t>(target_->shared().domain_state),
            .bottom_of_stack_offset = 8,
            .last_return_address_offset = 16,
            .user_callstack = range(probe_target_user_callstack, probe_target_user_callstack_end),
            .track_interned = range(probe_target_track_interned, probe_target_track_interned_end),
            .max_frames = 20000,
            .ring_bytes = 1u << 20};
  }
  LoadedSide load(const KernelConfig& config) {
    const KernelFrameTable table{10, program_.slots(10)};
    auto side = KernelSide::load(config, table);
    EXPECT_TRUE(side.ok()) << side.status();
    if (!side.ok()) return {};
    auto ring = (*side)->take_ring();
    return {*std::move(side), std::move(ring)};
  }
  void attach_all(KernelSide& side) {
    ASSERT_EQ(side.probes().attach(Probe::kCapture, site(probe_target_collect)), absl::OkStatus());
    ASSERT_EQ(side.probes().attach_lifecycle(), absl::OkStatus());
    ASSERT_EQ(side.probes().attach(Probe::kFrametable, site(probe_target_register_frametable)),
              absl::OkStatus());
    ASSERT_EQ(side.probes().attach(Probe::kBatch, batch_site()), absl::OkStatus());
  }
  static std::vector<Record> take(LoadedSide& side) {
    std::vector<Record> records;
    const int n = side.ring->consume([&](std::span<const std::byte> bytes) {
      records.push_back({{bytes.begin(), bytes.end()}});
    });
    EXPECT_EQ(static_cast<std::size_t>(n), records.size());
    return records;
  }
  // Puts a stack into the target's memory.
  SyntheticStack place(const std::vector<SyntheticChunk>& chunks) {
    auto& shared = target_->shared();
    SyntheticStack stack(chunks, reinterpret_cast<std::uint64_t>(shared.stack));
    EXPECT_LT(stack.words().size(), std::size(shared.stack));
    std::copy(stack.words().begin(), stack.words().end(), shared.stack);
    shared.domain_state[1] = stack.sp();
    shared.domain_state[2] = stack.pc();
    return stack;
  }

  // In this program, which is also the target's.
  template <typename T>
  ProbeSite site(T* function) const {
    return {.file = program_file_, .offset = offset_of(function)};
  }
  ProbeSite batch_site() const {
    return {.file = program_file_,
            .offset = offset_of(probe_target_batch),
            .semaphore_offset = file_offset(&probe_target_semaphore)};
  }

  const SharedFd program_file_ =
      std::make_shared<const UniqueFd>(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  std::unique_ptr<ProbeTarget> target_ = std::make_unique<ProbeTarget>();
  std::vector<SyntheticFrame> functions_;
  SyntheticProgram program_;
};

}  // namespace memprofd
