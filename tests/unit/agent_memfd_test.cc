#include "daemon/attach/agent_memfd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "daemon/util/fd.h"
#include "tests/unit/temp_dir.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

// As the injected code creates it, in this process.
UniqueFd agent_memfd(unsigned flags = MFD_ALLOW_SEALING) {
  return UniqueFd(::memfd_create(std::string(kAgentMemfdName).c_str(), MFD_CLOEXEC | flags));
}

std::string path_of(const UniqueFd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(AgentMemfd, IsTheAgentAndCannotBeChanged) {
  const TempDir dir;
  const std::string agent(3'000'000, 'a');
  const std::string file = dir.write("agent.so", agent);
  const UniqueFd memfd = agent_memfd();
  ASSERT_TRUE(fill_agent_memfd(path_of(memfd), file).ok());
  EXPECT_EQ(contents(path_of(memfd)), agent);
  EXPECT_EQ(::pwrite(memfd.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(memfd.get(), 0), -1);
  EXPECT_EQ(::fcntl(memfd.get(), F_GET_SEALS),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}

TEST(AgentMemfd, OnlyAnEmptyOneIsFound) {
  const TempDir dir;
  const UniqueFd other(::memfd_create("something", MFD_CLOEXEC));
  EXPECT_EQ(find_agent_memfd(ProcFs(), ::getpid()).status().code(), absl::StatusCode::kNotFound);
  const UniqueFd filled = agent_memfd();
  ASSERT_TRUE(fill_agent_memfd(path_of(filled), dir.write("agent.so", "a")).ok());
  EXPECT_EQ(find_agent_memfd(ProcFs(), ::getpid()).status().code(), absl::StatusCode::kNotFound);
  const UniqueFd empty = agent_memfd();
  const auto found = find_agent_memfd(ProcFs(), ::getpid());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, empty.get());
}

TEST(AgentMemfd, FailuresNameTheFile) {
  const TempDir dir;
  const UniqueFd memfd = agent_memfd();
  const std::string missing = dir.path("missing.so");
  EXPECT_THAT(std::string(fill_agent_memfd(path_of(memfd), missing).message()),
              HasSubstr("cannot open " + missing));
  const UniqueFd cannot_be_sealed = agent_memfd(0);
  const std::string file = dir.write("agent.so", "a");
  EXPECT_THAT(std::string(fill_agent_memfd(path_of(cannot_be_sealed), file).message()),
              HasSubstr("cannot seal"));
  EXPECT_THAT(std::string(fill_agent_memfd(dir.path("no/fd"), file).message()),
              HasSubstr("cannot open"));
}

TEST(AgentMemfd, FilesThatAProcessSees) {
  const TempDir dir;
  const std::string file = dir.write("agent.so", "a");
  EXPECT_TRUE(sees_file(ProcFs(), ::getpid(), file));
  EXPECT_FALSE(sees_file(ProcFs(), ::getpid(), dir.path("missing.so")));
  // A process whose root has another file under that path.
  const TempDir proc;
  proc.write("7/root" + file, "b");
  EXPECT_FALSE(sees_file(ProcFs(proc.path()), 7, file));
}

TEST(AgentMemfd, NeedsProcInside) {
  EXPECT_TRUE(check_proc_inside(ProcFs(), ::getpid()).ok());
  const TempDir proc;
  proc.write("7/root/etc/passwd", "");
  const absl::Status status = check_proc_inside(ProcFs(proc.path()), 7);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("mount /proc in its root"));
}

}  // namespace
}  // namespace memprofd
