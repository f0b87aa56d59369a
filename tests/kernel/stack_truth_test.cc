// SPDX-License-Identifier: Apache-2.0
// Every stack that the kernel walked equals the runtime's own, slot by slot.
//
// The target runs with an agent that makes the runtime record each sample's
// callstack as well (truth/truth.h). The same samples come here the normal way:
// captured by the kernel, paired by the daemon's pipeline; or captured by the runtime and
// told by the agent in packed batches.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/symbolize/debuginfo.h"
#include "tests/e2e/truth/truth.h"
#include "tests/kernel/attached_child.h"

namespace memprofd {
namespace {

using std::chrono::milliseconds;
using Slots = std::vector<std::uint64_t>;

constexpr std::size_t kWantedStacks = 6000;
constexpr std::size_t kWantedRare = 20;
constexpr double kRate = 2e-4;

class Collector : public SampleObserver {
 public:
  void on_native_event(const SampleEvent&) override {}
  void on_batch_end() override {}
  void on_event(const SampleEvent& event, double) override {
    const memprof_record& record = event.record;
    const auto kind = MEMPROF_ORIGIN_KIND(record.origin);
    if (kind != MEMPROF_ALLOC_MINOR && kind != MEMPROF_ALLOC_MAJOR) return;
    classes[record.sample_id] = event.alloc_class;
    ++by_source[MEMPROF_ORIGIN_SOURCE(record.origin)];
    threads[MEMPROF_ORIGIN_TID(record.origin)]++;
  }
  std::map<std::uint64_t, ClassId> classes;
  std::map<std::uint32_t, std::size_t> by_source;
  std::map<std::uint32_t, std::size_t> threads;
};

std::map<std::uint64_t, Slots> read_truth(const std::string& path) {
  std::map<std::uint64_t, Slots> truth;
  std::ifstream file(path, std::ios::binary);
  std::uint64_t head[2];
  while (file.read(reinterpret_cast<char*>(head), sizeof(head))) {
    Slots slots(head[1]);
    file.read(reinterpret_cast<char*>(slots.data()),
              static_cast<std::streamsize>(slots.size() * sizeof(slots[0])));
    if (file) truth.emplace(head[0], std::move(slots));
  }
  return truth;
}

// The runtime's slot 0 of a sample of combined allocations is a debuginfo where
// there is one: resolve ours the same way.
std::uint64_t innermost_slot(const Target& target, const Callstack& callstack) {
  const std::uint64_t address = callstack.entries.front();
  if (callstack.alloc_idx == kDebuginfoIsInnermost) return address | TRUTH_DEBUGINFO;
  if (callstack.alloc_idx < 0) return address;
  const FrameDescriptor* descriptor = target.frames.find(address);
  if (descriptor == nullptr) return 0;
  const auto debuginfo = find_debuginfo(*target.memory, descriptor->address, callstack.alloc_idx);
  return debuginfo ? *debuginfo | TRUTH_DEBUGINFO : address;
}

Slots slots_of(const Target& target, const Callstack& callstack) {
  Slots slots = callstack.expand(MEMPROF_MAX_FRAMES);
  if (!slots.empty()) slots[0] = innermost_slot(target, callstack);
  return slots;
}

class StackTruth : public ::testing::Test, protected AttachedChild {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    truth_path_ =
        std::filesystem::temp_directory_path() / ("memprof_truth." + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove(truth_path_); }

  void start(const std::string& program) {
    child_ = std::make_unique<ChildProcess>(
        std::vector<std::string>{program, "0"},
        std::vector<std::string>{
            "LD_PRELOAD=" +
                std::filesystem::absolute(build_path("tests/libmemprof_agent_truth.so")).string(),
            "MEMPROF_TRUTH_FILE=" + truth_path_.string()});
  }

  void attach(CaptureMode capture) {
    AttachOptions options;
    options.capture = capture;
    options.max_frames = MEMPROF_MAX_FRAMES;
    options.ring_bytes = 32 << 20;
    const absl::Status attached = AttachedChild::attach(options, kRate, &collector_);
    ASSERT_TRUE(attached.ok()) << attached;
  }

  // Until condition() or a minute.
  template <typename Condition>
  bool consume_until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      consume();
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }

  // For a test that waits in vain.
  std::string agent_state() const {
    const auto status = attachment_->agent()->status();
    if (!status.ok()) return std::string(status.status().message());
    return "state " + std::to_string(status->state) + ", starts " + std::to_string(status->starts) +
           ", stops " + std::to_string(status->stops) + ", conflicts " +
           std::to_string(status->conflicts) + ", " + std::to_string(collector_.classes.size()) +
           " samples, " + std::to_string(pipeline_->captures_seen()) + " captures; " + lost();
  }

  // "pair unused_capture 5; ..."
  std::string lost() const {
    std::string out;
    for (int i = 0; i < kDrops; ++i) {
      const auto drop = static_cast<Drop>(i);
      const std::uint64_t n = pipeline_->drops().get(drop);
      if (n == 0) continue;
      out += std::string(drop_name(drop).stage) + " " + std::string(drop_name(drop).reason) + " " +
             std::to_string(n) + "; ";
    }
    return out;
  }

  // Memory of custom blocks, as of Bigarray; since 4.12.
  bool samples_custom() const { return !attachment_->target().abi.version.starts_with("4.11"); }

  void stop() {
    lost_ = lost();  // what is sampled from here on until the agent has stopped may go
    attachment_->request_stop();
    ASSERT_TRUE(consume_until([&] { return attachment_->stopped(); }));
    consume();
  }

  // The target writes it behind its record of a sample.
  std::map<std::uint64_t, Slots> whole_truth() {
    std::map<std::uint64_t, Slots> truth;
    EXPECT_TRUE(consume_until([&] {
      truth = read_truth(truth_path_);
      return std::all_of(collector_.classes.begin(), collector_.classes.end(),
                         [&](const auto& sample) { return truth.contains(sample.first); });
    })) << "the truth of each sample is written";
    return truth;
  }

  // As far as a callstack goes that was cut, for which the runtime may have had no limit.
  static bool is_equal(const Slots& ours, const Slots& theirs, bool cut) {
    if (!cut || theirs.size() < ours.size()) return ours == theirs;
    return std::equal(ours.begin(), ours.end(), theirs.begin());
  }

  // The longest stack's frames.
  std::size_t compare() {
    const auto truth = whole_truth();
    std::size_t mismatched = 0, longest = 0, unknown = 0;
    for (const auto& [id, class_id] : collector_.classes) {
      const CallstackId callstack = pipeline_->alloc_class(class_id).callstack;
      const Callstack& found = *pipeline_->callstack(callstack);
      const Slots ours = slots_of(attachment_->target(), found);
      longest = std::max(longest, ours.size());
      const auto theirs = truth.find(id);
      if (theirs == truth.end()) {
        ++mismatched;
      } else if (theirs->second.empty()) {
        ++unknown;  // a collection has left the runtime's own behind (agent-lib/tracker.c)
      } else if (!is_equal(ours, theirs->second, found.truncated)) {
        ++mismatched;
      }
    }
    std::printf("%zu stacks compared, longest %zu frames, %zu threads\n", collector_.classes.size(),
                longest, collector_.threads.size());
    RecordProperty("note", std::to_string(collector_.classes.size() - mismatched) + " of " +
                               std::to_string(collector_.classes.size()) + " stacks equal");
    EXPECT_EQ(mismatched, 0u);
    EXPECT_LT(unknown, collector_.classes.size() / 100);
    EXPECT_GE(collector_.classes.size(), kWantedStacks);
    EXPECT_EQ(lost_, "");
    return longest;
  }

  // Frames of the longest stack so far.
  std::size_t longest_told() {
    std::size_t longest = 0;
    for (const auto& [id, class_id] : collector_.classes) {
      const auto found = pipeline_->callstack(pipeline_->alloc_class(class_id).callstack);
      longest = std::max(longest, slots_of(attachment_->target(), *found).size());
    }
    return longest;
  }

  bool seen(memprof_source source) { return collector_.by_source[source] >= kWantedRare; }

  std::filesystem::path truth_path_;
  Collector collector_;
  std::string lost_;
};

struct Way {
  const char* name;
  bool ocaml5;
  CaptureMode capture;
};

class StackTruthOf : public StackTruth, public ::testing::WithParamInterface<Way> {
 protected:
  // Frames of the longest stack at least.
  std::size_t depth(std::size_t of_all) const {
    return GetParam().capture == CaptureMode::kRuntime
               ? std::min<std::size_t>(of_all, MEMPROF_PACKED_FRAMES)
               : of_all;
  }
};

INSTANTIATE_TEST_SUITE_P(, StackTruthOf,
                         ::testing::Values(Way{"ocaml4", false, CaptureMode::kKernel},
                                           Way{"ocaml5", true, CaptureMode::kKernel},
                                           Way{"ocaml4_runtime", false, CaptureMode::kRuntime},
                                           Way{"ocaml4_agent", false, CaptureMode::kAgent},
                                           Way{"ocaml5_runtime", true, CaptureMode::kRuntime},
                                           Way{"ocaml5_agent", true, CaptureMode::kAgent}),
                         [](const auto& info) { return std::string(info.param.name); });

class StackTruthOfDomains : public StackTruth, public ::testing::WithParamInterface<CaptureMode> {};

INSTANTIATE_TEST_SUITE_P(, StackTruthOfDomains,
                         ::testing::Values(CaptureMode::kKernel, CaptureMode::kRuntime,
                                           CaptureMode::kAgent),
                         [](const auto& info) {
                           return std::string(capture_name(capture_of(info.param)));
                         });

TEST_P(StackTruthOf, EveryStackEqualsTheRuntimesOwn) {
  start(GetParam().ocaml5 ? target5_path("stacks") : target_path("stacks"));
  attach(GetParam().capture);
  ASSERT_TRUE(consume_until([&] {
    return collector_.classes.size() >= kWantedStacks && collector_.threads.size() >= 4 &&
           seen(MEMPROF_SOURCE_MARSHAL) && (seen(MEMPROF_SOURCE_CUSTOM) || !samples_custom()) &&
           longest_told() >= depth(5001);
  })) << agent_state();
  stop();
  // The target does what it is there for.
  EXPECT_GE(compare(), depth(5001));
  EXPECT_GE(collector_.threads.size(), 4u);
  EXPECT_EQ(child_->finish(), 0);
}

// Domains, some of them short-lived, with threads and fibers, all at once.
TEST_P(StackTruthOfDomains, AndFibers) {
  start(target5_path("domains"));
  attach(GetParam());
  ASSERT_TRUE(consume_until(
      [&] { return collector_.classes.size() >= kWantedStacks && seen(MEMPROF_SOURCE_MARSHAL); }));
  stop();
  EXPECT_GT(compare(), 30u);
  EXPECT_GE(collector_.threads.size(), 5u);
  EXPECT_EQ(child_->finish(), 0);
}

}  // namespace
}  // namespace memprofd
