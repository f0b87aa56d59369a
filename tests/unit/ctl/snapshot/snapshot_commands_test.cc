// SPDX-License-Identifier: Apache-2.0
// Questions about files that are not whole, or hold nothing of what is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ctl/commands.h"
#include "tests/kit/command.h"
#include "tests/kit/heap_file.h"
#include "tests/kit/temp_dir.h"

namespace memprofd::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
  // words: the question and its arguments; FILE stands for a file of these bytes.
  absl::Status ask(const std::string& bytes, std::vector<std::string> words) const {
    const std::string file = dir_.path("a.heap");
    std::ofstream(file, std::ios::binary) << bytes;
    std::replace(words.begin(), words.end(), std::string("FILE"), file);
    words.insert(words.end(), {"--out", dir_.path("out")});
    return run_command(&add_snapshot, std::move(words));
  }
  std::string shown() const {
    std::ifstream in(dir_.path("out"));
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  TempDir dir_;
};

TEST_F(SnapshotCommands, NothingIsToldOfRootsThatWereCutOff) {
  const std::string bytes = whole_file();
  const std::string cut = bytes.substr(0, bytes.size() - 1);
  for (const std::vector<std::string>& question :
       std::vector<std::vector<std::string>>{{"retained", "FILE"},
                                             {"why", "FILE", "Cache"},
                                             {"diff", "FILE", "FILE"},
                                             {"garbage", "FILE"},
                                             {"waste", "FILE"},
                                             {"largest", "FILE"}}) {
    const absl::Status status = ask(cut, question);
    EXPECT_EQ(absl::StatusCode::kInvalidArgument, status.code()) << question[0];
    EXPECT_THAT(std::string(status.message()), HasSubstr("is truncated or damaged"));
  }
  ASSERT_TRUE(ask(cut, {"show", "FILE"}).ok());
  EXPECT_THAT(shown(), HasSubstr("truncated or damaged"));
  EXPECT_THAT(shown(), Not(HasSubstr("floating garbage")));
  ASSERT_TRUE(ask(bytes, {"retained", "FILE"}).ok());
  EXPECT_THAT(shown(), HasSubstr("globals"));
}

TEST_F(SnapshotCommands, APlaceWithoutTypesOfTheProgramIsRefused) {
  const std::string bytes = whole_file();
  EXPECT_THAT(std::string(ask(bytes, {"show", "FILE", "--cmt", dir_.path()}).message()),
              HasSubstr("no .cmi or .cmt file in"));
  EXPECT_TRUE(absl::IsNotFound(ask(bytes, {"show", "FILE", "--cmt", dir_.path("missing")})));
}

TEST_F(SnapshotCommands, ASnapshotWithoutSampledBlocksSaysWhy) {
  const absl::Status status = ask(whole_file(), {"why", "FILE", "Cache"});
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("blocks from before the attach have no site"));
}

}  // namespace
}  // namespace memprofd::ctl
