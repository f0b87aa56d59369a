// SPDX-License-Identifier: Apache-2.0
// The hot path allocates nothing: every way to the heap is counted while batches of a
// target in steady state are taken in.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <memory>

#include "tests/kit/synthetic_target.h"

namespace memprofd {
namespace {
thread_local std::size_t allocations = 0;
}  // namespace
}  // namespace memprofd

// glibc's functions under their second names; operator new calls these too. In all of
// this program.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  ++memprofd::allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++memprofd::allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  ++memprofd::allocations;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++memprofd::allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, std::size_t alignment, std::size_t bytes) {
  ++memprofd::allocations;
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
}

namespace memprofd {
namespace {

// Until no new lifetime of a class comes any more.
constexpr std::size_t kWarmUpRecords = 300'000;
constexpr std::size_t kCountedRecords = 100'000;

template <typename Captured>
class NoAllocationTest : public testing::Test {
 protected:
  // Answers with the allocations in them.
  std::size_t take_batches(std::size_t records) {
    std::size_t allocated = 0;
    for (std::size_t i = 0; i < records / Captured::kBatchRecords; ++i) allocated += take_batch();
    return allocated;
  }
  // The allocations in it.
  std::size_t take_batch() {
    target_.fill_batch();
    const std::size_t before = allocations;
    target_.send();
    return allocations - before;
  }

  SyntheticTarget<Captured> target_{
      {.live = 20'000, .stacks = 50, .threads = 2, .oldest_first = true}};
};

using Captures = testing::Types<KernelCaptured, RuntimeCaptured>;
TYPED_TEST_SUITE(NoAllocationTest, Captures);

TYPED_TEST(NoAllocationTest, SteadyStateAllocatesNothing) {
  this->take_batches(kWarmUpRecords);
  EXPECT_EQ(this->take_batches(kCountedRecords), 0u);
  EXPECT_EQ(this->target_.pipeline.drops().total(), 0u);
}

TYPED_TEST(NoAllocationTest, NorDoesTheNextWindowOfHistory) {
  this->take_batches(kWarmUpRecords);
  this->target_.pipeline.close_interval([](const Interval&, double) {});
  this->take_batches(kCountedRecords);
  this->target_.pipeline.close_interval([](const Interval&, double) {});
  EXPECT_EQ(this->take_batch(), 0u);
}

// An observer that keeps what it sees.
class Keeper : public SampleObserver {
 public:
  void on_event(const SampleEvent& event, double) override {
    kept_ = std::make_unique<SampleEvent>(event);
  }
  void on_native_event(const SampleEvent&) override {}
  void on_batch_end() override {}

 private:
  std::unique_ptr<SampleEvent> kept_;
};

TYPED_TEST(NoAllocationTest, OneForEachRecordIsSeen) {
  Keeper keeper;
  this->target_.pipeline.set_observer(&keeper);
  EXPECT_GT(this->take_batch(), 300u);
  this->target_.pipeline.set_observer(nullptr);
}

}  // namespace
}  // namespace memprofd
