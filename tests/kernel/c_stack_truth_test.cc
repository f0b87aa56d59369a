// SPDX-License-Identifier: Apache-2.0
// Every callstack of C's memory equals what a full unwinding finds, address by address.
//
// The program unwinds its own stack where it takes a block, by the tables that compilers write for
// exceptions and debuggers, of which memprofd reads nothing (targets/memory/c_stacks_stubs.c). The
// same blocks come here the normal way: sampled by the agent, walked by the kernel. Each block has
// a size of its own, by which both are put together. C_STACKS is how many of them there are.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/attach/inject/native_heap_control.h"
#include "tests/kernel/attached_child.h"

namespace memprofd {
namespace {

using Addresses = std::vector<std::uint64_t>;

constexpr std::uint64_t kInterval = 1024;  // bytes, of which each block has 20,000 and more
constexpr double kRate = 1e-6;             // of OCaml's memory, which is not looked at

// As c_stacks_stubs.c has them.
enum class Leaf { kNoted, kUnnoted, kUnlocked, kLockedAgain, kWithMany, kAfterCall };
constexpr std::array kLeaves = {"noted",        "noalloc",        "unlocked",
                                "locked again", "many arguments", "after a callback"};
enum class End { kAtTheEnd, kCutByTheRuntime, kTooEarly };
constexpr std::uint64_t kInOcaml = 0;

struct Truth {
  std::uint32_t thread = 0;
  Leaf leaf = Leaf::kNoted;
  End end = End::kTooEarly;
  Addresses ocaml;  // return addresses into OCaml code, innermost first
};

struct Block {
  std::uint32_t thread;
  ClassId of;
};

// By size.
std::map<std::uint64_t, Truth> read_truth(const std::string& path) {
  std::map<std::uint64_t, Truth> truth;
  std::ifstream file(path, std::ios::binary);
  std::uint64_t head[4];
  while (file.read(reinterpret_cast<char*>(head), sizeof(head))) {
    Addresses frames(head[3]);
    file.read(reinterpret_cast<char*>(frames.data()),
              static_cast<std::streamsize>(frames.size() * sizeof(frames[0])));
    Truth of{static_cast<std::uint32_t>(head[1] >> 8),
             static_cast<Leaf>(head[1] & 0xff),
             static_cast<End>(head[2]),
             {}};
    for (const std::uint64_t frame : frames) {
      if (frame >> 60 == kInOcaml) of.ocaml.push_back(frame);
    }
    truth.emplace(head[0], std::move(of));
  }
  return truth;
}

class NativeBlocks : public SampleObserver {
 public:
  void on_event(const SampleEvent&, double) override {}
  void on_batch_end() override {}
  // Odd sizes are the program's own.
  void on_native_event(const SampleEvent& event) override {
    const std::uint64_t bytes = 8 * event.record.size_words - event.bytes_short;
    any = true;
    if (event.record.size_words == 0 || bytes % 2 == 0 || bytes < 20'000) return;
    by_size.insert_or_assign(bytes,
                             Block{MEMPROF_ORIGIN_TID(event.record.origin), event.alloc_class});
  }
  bool any = false;
  std::map<std::uint64_t, Block> by_size;
};

struct Compared {
  std::size_t right = 0, cut = 0, unknown = 0, wrong = 0;
  std::set<CallstackId> different;

  void add(const Compared& other) {
    right += other.right;
    cut += other.cut;
    unknown += other.unknown;
    wrong += other.wrong;
    different.insert(other.different.begin(), other.different.end());
  }
  std::string text() const {
    return absl::StrCat(right, " right (", cut, " as far as the runtime goes; ", different.size(),
                        " different ones), ", unknown, " unknown, ", wrong, " wrong");
  }
};

class CStackTruth : public ::testing::TestWithParam<bool>, protected AttachedChild {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    path_ =
        std::filesystem::temp_directory_path() / ("memprof_c_truth." + std::to_string(getpid()));
    const std::string program = GetParam() ? target5_path("c_stacks") : target_path("c_stacks");
    const auto agent = std::filesystem::absolute(build_path("libmemprof_agent.so"));
    child_ =
        std::make_unique<ChildProcess>(std::vector<std::string>{program},
                                       std::vector<std::string>{"LD_PRELOAD=" + agent.string()});
    attach();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void attach() {
    AttachOptions options;
    options.native_heap_interval = kInterval;
    options.max_frames = MEMPROF_MAX_FRAMES;
    options.ring_bytes = 64 << 20;
    const absl::Status attached = AttachedChild::attach(options, kRate, &blocks_);
    ASSERT_TRUE(attached.ok()) << attached;
    ASSERT_TRUE(wait_until_followed());
  }

  // What the program answers; meanwhile events are taken.
  std::string ask(const std::string& command) {
    auto answer = std::async(std::launch::async, [&] { return child_->ask(command); });
    while (answer.wait_for(std::chrono::milliseconds(2)) != std::future_status::ready) consume();
    consume();
    return answer.get();
  }

  // It begins at a minor collection.
  bool wait_until_followed() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (attachment_->native_heap().control() == nullptr || !followed()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      ask("minor");
    }
    return true;
  }
  bool followed() const {
    const auto status = attachment_->native_heap().control()->status();
    return status.ok() && status->state == MEMPROF_NATIVE_HEAP_FOLLOWING;
  }

  // A block that was not told of is not compared.
  void compare(const Truth& truth, const Block& block, Compared& counts) {
    const CallstackId id = pipeline_->alloc_class(block.of).callstack;
    if (block.thread != truth.thread) {
      ++counts.wrong;
    } else if (id == CallstackId()) {
      ++counts.unknown;
    } else if (pipeline_->callstack(id)->expand(MEMPROF_MAX_FRAMES) != truth.ocaml) {
      ++counts.wrong;
    } else {
      ++counts.right;
      counts.different.insert(id);
      counts.cut += truth.end == End::kCutByTheRuntime;
    }
  }

  std::filesystem::path path_;
  NativeBlocks blocks_;
};

INSTANTIATE_TEST_SUITE_P(, CStackTruth, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "ocaml5" : "ocaml4");
});

TEST_P(CStackTruth, EveryCallstackEqualsAFullUnwinding) {
  const char* asked = std::getenv("C_STACKS");
  const std::size_t wanted = asked ? std::stoul(asked) : 8'000;
  ASSERT_GE(std::stoul(ask("run " + path_.string() + " " + std::to_string(wanted))), wanted);
  const auto truth = read_truth(path_);
  std::map<Leaf, Compared> by_leaf;
  std::size_t compared = 0, longest = 0, early = 0;
  for (const auto& [bytes, of] : truth) {
    const auto block = blocks_.by_size.find(bytes);
    early += of.end == End::kTooEarly;
    if (block == blocks_.by_size.end()) continue;
    longest = std::max(longest, of.ocaml.size());
    compare(of, block->second, by_leaf[of.leaf]);
    ++compared;
  }
  Compared all;
  for (const auto& [leaf, counts] : by_leaf) {
    std::printf("%s: %s\n", kLeaves[static_cast<int>(leaf)], counts.text().c_str());
    all.add(counts);
  }
  std::printf("OCaml %s: %zu blocks, up to %zu frames: %s\n",
              attachment_->target().abi.version.c_str(), truth.size(), longest, all.text().c_str());
  RecordProperty("note", "callstacks of C's memory: " + all.text());
  EXPECT_EQ(all.wrong, 0u);
  EXPECT_EQ(early, 0u) << "unwindings that did not come to the end";
  EXPECT_GT(all.right, wanted / 3);
  EXPECT_GT(compared, truth.size() * 9 / 10);
}

}  // namespace
}  // namespace memprofd
