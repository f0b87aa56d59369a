// SPDX-License-Identifier: Apache-2.0
#include "daemon/attach/inject/agent_memfd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>
#include <thread>

#include "daemon/discover/agent_names.h"
#include "daemon/util/fd.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using ::testing::HasSubstr;

// Creates it in this process as the borrowed thread does.
UniqueFd agent_memfd(unsigned flags = MFD_ALLOW_SEALING) {
  return UniqueFd(::memfd_create(std::string(kAgentMemfdName).c_str(), MFD_CLOEXEC | flags));
}

std::string path_of(const UniqueFd& fd) { return "/proc/self/fd/" + std::to_string(fd.get()); }

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(AgentMemfd, IsTheAgentAndCannotBeChanged) {
  const std::string agent(3'000'000, 'a');
  const UniqueFd memfd = agent_memfd();
  ASSERT_EQ(check_fresh_memfd(memfd.get()), absl::OkStatus());
  ASSERT_EQ(fill_memfd(memfd.get(), bytes(agent)), absl::OkStatus());
  EXPECT_EQ(read_file(path_of(memfd)), agent);
  EXPECT_EQ(::pwrite(memfd.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(memfd.get(), 0), -1);
  EXPECT_EQ(::fcntl(memfd.get(), F_GET_SEALS),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}

class NotAFreshMemfd : public ::testing::Test {
 protected:
  // The program may hold any file under the number that it reports for the copy.
  void refused(int fd, const std::string& why) {
    ASSERT_GE(fd, 0) << strerror(errno);
    const UniqueFd owner(fd);
    const absl::Status status = check_fresh_memfd(fd);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  TempDir dir_;
};

TEST_F(NotAFreshMemfd, FilesAndDevices) {
  const std::string file = dir_.write("file", "");
  refused(::open(file.c_str(), O_PATH), "is not open for reading and writing");
  refused(::open(file.c_str(), O_RDWR), "is not a file in memory");
  refused(::open("/dev/null", O_RDWR), "is not a file in memory");
  const std::string pipe = dir_.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  refused(::open(pipe.c_str(), O_RDWR), "is not a file in memory");
  refused(::socket(AF_UNIX, SOCK_STREAM, 0), "is not a file in memory");
  refused(::eventfd(0, 0), "is not a file in memory");
  refused(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY), "is not open for");
}

TEST_F(NotAFreshMemfd, FilesOfATmpfs) {
  refused(::open("/dev/shm", O_TMPFILE | O_RDWR, 0600),
          "is already sealed or does not support seals");
  const std::string named = "/dev/shm/memprofd-test-" + std::to_string(::getpid());
  const int fd = ::open(named.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  refused(::dup(fd), "is not a file in memory");
  ::unlink(named.c_str());
  refused(fd, "is already sealed or does not support seals");
}

TEST_F(NotAFreshMemfd, OtherMemfds) {
  refused(agent_memfd(0).release(), "is already sealed or does not support seals");
  const UniqueFd other = agent_memfd();
  refused(::open(path_of(other).c_str(), O_RDONLY), "is not open for reading and writing");
  refused(::open(path_of(other).c_str(), O_PATH), "is not open for reading and writing");
  ASSERT_EQ(::write(other.get(), "x", 1), 1);
  refused(::dup(other.get()), "is not empty");
  const UniqueFd sealed = agent_memfd();
  ASSERT_EQ(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  refused(::dup(sealed.get()), "is already sealed or does not support seals");
}

TEST(AgentMemfd, WhoCanStillChangeItIsRefused) {
  const UniqueFd mapped = agent_memfd();
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapped.get(), 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_THAT(std::string(fill_memfd(mapped.get(), bytes("agent")).message()),
              HasSubstr("cannot seal"));
  ::munmap(page, 4096);
  const UniqueFd longer = agent_memfd();
  ASSERT_EQ(::pwrite(longer.get(), "x", 1, 100), 1);  // after it was found to be empty
  EXPECT_EQ(fill_memfd(longer.get(), bytes("agent")).code(), absl::StatusCode::kDataLoss);
}

TEST(AgentMemfd, WrittenToMeanwhileItIsWholeOrRefused) {
  const std::string agent(1'000'000, 'a');
  int refusals = 0;
  // The enemy may not get a processor in time.
  for (int round = 0; round < 20 || (refusals == 0 && round < 2000); ++round) {
    const UniqueFd memfd = agent_memfd();
    std::atomic<bool> writes = false;
    std::thread enemy([&] {
      while (::pwrite(memfd.get(), "x", 1, 0) == 1) writes = true;  // until it is sealed
    });
    while (!writes) std::this_thread::yield();
    const absl::Status filled = fill_memfd(memfd.get(), bytes(agent));
    enemy.join();
    refusals += !filled.ok();
    EXPECT_EQ(filled.ok(), read_file(path_of(memfd)) == agent) << filled;
  }
  EXPECT_GT(refusals, 0);
}

TEST(AgentMemfd, ADescriptorIsTakenOverAsItIs) {
  const UniqueFd memfd = agent_memfd();
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  const auto taken = take_descriptor(::gettid(), self.get(), memfd.get());
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_TRUE(same_file(taken->get(), memfd.get()));
  EXPECT_FALSE(same_file(taken->get(), agent_memfd().get()));
  const UniqueFd path(::open("/dev/null", O_PATH));
  const auto still_path = take_descriptor(::gettid(), self.get(), path.get());
  ASSERT_TRUE(still_path.ok()) << still_path.status();
  EXPECT_NE(::fcntl(still_path->get(), F_GETFL) & O_PATH, 0);
  EXPECT_FALSE(take_descriptor(::gettid(), self.get(), 999'999).ok());
}

// A thread may have descriptors of its own.
TEST(AgentMemfd, ADescriptorOfTheThreadItself) {
  const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  std::thread([&] {
    ASSERT_EQ(::unshare(CLONE_FILES), 0);
    const UniqueFd memfd = agent_memfd();
    std::thread([&, tid = ::gettid()] {
      const auto taken = take_descriptor(tid, self.get(), memfd.get());
      ASSERT_TRUE(taken.ok()) << taken.status();
      EXPECT_EQ(check_fresh_memfd(taken->get()), absl::OkStatus());
    }).join();
  }).join();
}

TEST(AgentMemfd, ReadsAWholeFile) {
  const TempDir dir;
  const auto read = read_whole_file(dir.write("agent.so", "agent"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 5u);
  const std::string missing = dir.path("missing.so");
  EXPECT_THAT(std::string(read_whole_file(missing).status().message()),
              HasSubstr("cannot read " + missing));
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

TEST(AgentMemfd, HasAnotherNameBesideEachAgent) {
  EXPECT_EQ(name_beside("/usr/lib/agent.so", 0), "/usr/lib/agent.so");
  EXPECT_EQ(name_beside("/usr/lib/agent.so", 1), "/usr/lib/./agent.so");
  EXPECT_EQ(name_beside("/proc/thread-self/fd/7", 2), "/proc/thread-self/fd/././7");
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
