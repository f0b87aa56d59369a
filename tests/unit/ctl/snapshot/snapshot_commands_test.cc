// SPDX-License-Identifier: Apache-2.0
// Questions about files that are not whole, or hold nothing of what is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string_view>

#include "daemon/ctl/commands.h"
#include "daemon/ctl/snapshot_command_line.h"
#include "tests/kit/heap_file.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The command of a question that has no options of its own.
Command question_named(std::string_view name) {
  for (const FileQuestion& question : file_questions()) {
    if (question.name == name) return question.run;
  }
  ADD_FAILURE() << "no question is named " << name;
  return nullptr;
}

class SnapshotCommands : public ::testing::Test {
 protected:
  // A global that holds one block, beside one that nothing holds; no block was sampled.
  std::string whole_file() {
    FakeChunks heap;
    const std::uint64_t first = heap.put_chunk(joined({block(3, 0), block(4, 0)}));
    const auto bytes = heap_file_of(heap.memory, *heap.map(), [first](HeapFileWriter& writer) {
      writer.add_root(first + 8, {.kind = RootKind::kGlobal, .owner = "Cache", .field = 2});
    });
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return *bytes;
  }
  Options options(const std::string& bytes) const {
    Options options;
    options.heap_file = options.other_heap_file = dir_.path("a.heap");
    options.out = dir_.path("out");
    options.heap_site = "Cache";
    std::ofstream(options.heap_file, std::ios::binary) << bytes;
    return options;
  }
  std::string shown() const {
    std::ifstream in(dir_.path("out"));
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  TempDir dir_;
};

TEST_F(SnapshotCommands, NothingIsToldOfRootsThatWereCutOff) {
  const std::string bytes = whole_file();
  const Options cut = options(bytes.substr(0, bytes.size() - 1));
  for (const Command question :
       {Command{run_snapshot_retained}, Command{run_snapshot_why}, Command{run_snapshot_diff},
        question_named("garbage"), question_named("waste"), question_named("largest")}) {
    const absl::Status status = question(cut);
    EXPECT_EQ(absl::StatusCode::kInvalidArgument, status.code());
    EXPECT_THAT(std::string(status.message()), HasSubstr("is truncated or damaged"));
  }
  const Command show = question_named("show");
  ASSERT_TRUE(show(cut).ok());
  EXPECT_THAT(shown(), HasSubstr("truncated or damaged"));
  EXPECT_THAT(shown(), Not(HasSubstr("floating garbage")));
  ASSERT_TRUE(run_snapshot_retained(options(bytes)).ok());
  EXPECT_THAT(shown(), HasSubstr("globals"));
}

TEST_F(SnapshotCommands, APlaceWithoutTypesOfTheProgramIsRefused) {
  Options asked = options(whole_file());
  asked.heap_cmt = {dir_.path()};
  const Command show = question_named("show");
  EXPECT_THAT(std::string(show(asked).message()), HasSubstr("no .cmi or .cmt file in"));
  asked.heap_cmt = {dir_.path("missing")};
  EXPECT_TRUE(absl::IsNotFound(show(asked)));
}

TEST_F(SnapshotCommands, ASnapshotWithoutSampledBlocksSaysWhy) {
  const absl::Status status = run_snapshot_why(options(whole_file()));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("blocks from before the attach have no site"));
}

}  // namespace
}  // namespace memprofd::ctl
