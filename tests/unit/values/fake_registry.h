// SPDX-License-Identifier: Apache-2.0
// Registry of a program that publishes values, in the test's memory.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "daemon/discover/memory_reader.h"
#include "daemon/values/publication.h"

namespace memprofd {

inline constexpr std::uint64_t kRegistryAddress = 0x7f0000001000;
inline constexpr TickMoment kRegistryNow{.ticks = 10'000, .ns = 5'000, .ns_per_tick = 0.5};

// A program's registry, which it may change while it is read.
class FakeRegistry : public WritableMemory {
 public:
  FakeRegistry() {
    it->head.magic = MEMPROF_VALUES_MAGIC;
    it->head.abi = MEMPROF_VALUES_ABI;
    it->head.slot_bytes = sizeof(memprof_slot);
    it->head.lane_bytes = sizeof(memprof_lane);
    it->head.log_entry_bytes = sizeof(memprof_log_entry);
    it->head.request_bytes = sizeof(memprof_request);
    it->head.lanes_used = 1;
  }
  memprof_slot& add(memprof_slot_kind kind, const std::string& name) {
    memprof_slot& slot = it->slots[it->head.slots_used++];
    slot.kind = kind;
    std::strncpy(slot.name, name.c_str(), sizeof slot.name);
    return slot;
  }
  absl::Status read(std::uint64_t address, std::span<std::byte> out) const override {
    if (address < kRegistryAddress || out.size() > end ||
        address - kRegistryAddress > end - out.size()) {
      ADD_FAILURE() << "outside of the registry";
      return absl::OutOfRangeError("not mapped");
    }
    std::memcpy(out.data(),
                reinterpret_cast<const std::byte*>(it.get()) + (address - kRegistryAddress),
                out.size());
    ++reads;
    last_read = address;
    if (after_read) after_read();
    return absl::OkStatus();
  }
  absl::Status write(std::uint64_t address, std::span<const std::byte> bytes) const override {
    const std::uint64_t offset = address - kRegistryAddress;
    check_write(offset, bytes.size());
    ++writes;
    std::memcpy(reinterpret_cast<std::byte*>(it.get()) + offset, bytes.data(), bytes.size());
    if (after_write) after_write();
    return absl::OkStatus();
  }
  Publication report() const {
    auto report = read_publication(*this, kRegistryAddress, kRegistryNow);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : Publication();
  }

  std::size_t end = sizeof(memprof_values);  // what lies behind is not the registry's
  std::unique_ptr<memprof_values> it = std::make_unique<memprof_values>();
  mutable int reads = 0;
  mutable std::uint64_t last_read = 0;  // where
  mutable int writes = 0;
  std::function<void()> after_read, after_write;

 private:
  // Fields that only the watcher writes.
  static void check_write(std::uint64_t offset, std::size_t bytes) {
    if (offset < sizeof(memprof_values_head)) {
      EXPECT_TRUE(offset == offsetof(memprof_values_head, observed_until_ns) ||
                  offset == offsetof(memprof_values_head, resumed) ||
                  offset == offsetof(memprof_values_head, asked_last));
      EXPECT_EQ(bytes, sizeof(std::uint64_t));
    } else if (offset < offsetof(memprof_values, log)) {
      EXPECT_EQ((offset - offsetof(memprof_values, slots)) % sizeof(memprof_slot),
                offsetof(memprof_slot, control));
      EXPECT_EQ(bytes, sizeof(std::uint32_t));
    } else {
      ASSERT_GE(offset, offsetof(memprof_values, requests));
      const std::uint64_t in_request =
          (offset - offsetof(memprof_values, requests)) % sizeof(memprof_request);
      EXPECT_GE(in_request, offsetof(memprof_request, asked));
      EXPECT_LE(in_request + bytes, sizeof(memprof_request));
    }
  }
};

}  // namespace memprofd
