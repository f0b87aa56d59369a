// SPDX-License-Identifier: Apache-2.0
#include "daemon/heapdump/copy_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using testing::AllOf;
using testing::HasSubstr;
constexpr std::uint64_t kMiB = 1u << 20;

// A machine with 1 GiB left, and a program of 100 MiB in a group of two levels.
class CopyRoom : public testing::Test {
 protected:
  CopyRoom() {
    machine_.write("proc/meminfo", "MemTotal: 4000000 kB\nMemAvailable:    1048576 kB\n");
    machine_.write("proc/42/cgroup", "0::/shop/api\n");
  }
  void group(const std::string& path, const std::string& limit, std::uint64_t usage,
             std::uint64_t unused = 0) {
    machine_.write("cgroup/" + path + "/memory.max", limit + "\n");
    machine_.write("cgroup/" + path + "/memory.current", std::to_string(usage) + "\n");
    machine_.write("cgroup/" + path + "/memory.stat",
                   "anon 5\ninactive_file " + std::to_string(unused) + "\n");
  }
  std::string refusal(std::uint64_t bytes = 100 * kMiB) const {
    return std::string(
        check_room(42, {.anonymous_bytes = bytes}, {machine_.path("proc"), machine_.path("cgroup")})
            .message());
  }

  TempDir machine_;
};

TEST_F(CopyRoom, IsThereWithoutLimits) {
  EXPECT_EQ("", refusal());
  group("shop/api", "max", 900 * kMiB);
  EXPECT_EQ("", refusal());
}

TEST_F(CopyRoom, OfTheMachine) {
  EXPECT_EQ("", refusal(1000 * kMiB));
  EXPECT_THAT(refusal(1024 * kMiB), AllOf(HasSubstr("pid 42 may need 1"),
                                          HasSubstr("the machine has room for 1.00 GiB")));
}

TEST_F(CopyRoom, OfTheGroupAndThoseAbove) {
  group("shop/api", std::to_string(300 * kMiB), 150 * kMiB);
  EXPECT_EQ("", refusal());
  group("shop/api", std::to_string(300 * kMiB), 200 * kMiB);
  EXPECT_THAT(refusal(), HasSubstr("its cgroup /shop/api has room for 100 MiB: raise its"));
  group("shop/api", std::to_string(300 * kMiB), 200 * kMiB, 50 * kMiB);
  EXPECT_EQ("", refusal());
  group("shop", std::to_string(500 * kMiB), 450 * kMiB);
  EXPECT_THAT(refusal(), HasSubstr("its cgroup /shop has room for 50.0 MiB"));
  group("shop", std::to_string(500 * kMiB), 600 * kMiB);
  EXPECT_THAT(refusal(), HasSubstr("its cgroup /shop has room for 0 B"));
}

TEST_F(CopyRoom, OfTheFirstVersionOfCgroups) {
  machine_.write("proc/42/cgroup", "4:cpu,memory:/shop\n3:devices:/\n");
  machine_.write("cgroup/memory/shop/memory.limit_in_bytes", "104857600\n");
  machine_.write("cgroup/memory/shop/memory.usage_in_bytes", "94371840\n");
  EXPECT_THAT(refusal(), HasSubstr("its cgroup /shop has room for 10.0 MiB"));
}

TEST_F(CopyRoom, AnUnreadableFileIsNotALimit) {
  for (const char* text : {"", "0::/../../other\n", "0::\n", "garbage", "0::/not/there\n"}) {
    machine_.write("proc/42/cgroup", text);
    EXPECT_EQ("", refusal()) << text;
  }
}

}  // namespace
}  // namespace memprofd
