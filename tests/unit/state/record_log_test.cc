// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/record_log.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using Records = std::vector<std::string>;

constexpr std::size_t kHeadBytes = 12, kFrameBytes = 8;

class RecordLogTest : public testing::Test {
 protected:
  Records read() const {
    Records records;
    status_ = read_records(path_, [&](std::string_view record) {
      records.emplace_back(record);
      return true;
    });
    return records;
  }
  // Number of records that end before a file offset.
  static std::size_t whole_before(const Records& records, std::size_t offset) {
    std::size_t end = kHeadBytes, n = 0;
    for (const std::string& record : records) {
      end += kFrameBytes + record.size();
      if (end > offset) break;
      ++n;
    }
    return n;
  }

  TempDir dir_;
  const std::string path_ = dir_.path("log");
  const Records records_{"a", std::string(300, 'b'), std::string(1, '\0'), "memprofd", "last"};
  mutable absl::Status status_;
};

void append_all(const std::string& path, const Records& records) {
  auto log = RecordLog::create(path);
  ASSERT_TRUE(log.ok()) << log.status();
  for (const std::string& record : records) ASSERT_TRUE(log->append(record).ok());
  EXPECT_EQ(log->bytes(), read_file(path).size());
}

TEST_F(RecordLogTest, ReadsWhatWasWritten) {
  append_all(path_, records_);
  EXPECT_EQ(read(), records_);
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(RecordLogTest, AFifoIsNotWaitedAt) {
  ASSERT_EQ(0, ::mkfifo(path_.c_str(), 0600));
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(absl::StatusCode::kInvalidArgument, status_.code());
  append_all(path_, records_);  // in its place
  EXPECT_EQ(read(), records_);
}

TEST_F(RecordLogTest, AFileOfAnotherUserIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "a file of another user is made by root only";
  append_all(path_, records_);
  ASSERT_EQ(0, ::chown(path_.c_str(), 4711, 4711));
  EXPECT_TRUE(read().empty());
  EXPECT_EQ(absl::StatusCode::kPermissionDenied, status_.code());
}

TEST_F(RecordLogTest, CutAnywhereItHasTheRecordsBeforeTheCut) {
  append_all(path_, records_);
  const std::string whole = read_file(path_);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    dir_.write("log", whole.substr(0, size));
    const Records read_back = read();
    ASSERT_EQ(status_.ok(), size >= kHeadBytes) << "cut at " << size;
    const std::size_t n = whole_before(records_, size);
    ASSERT_EQ(read_back, Records(records_.begin(), records_.begin() + static_cast<long>(n)))
        << "cut at " << size;
  }
}

TEST_F(RecordLogTest, WithAnyByteChangedItHasTheRecordsBeforeIt) {
  append_all(path_, records_);
  const std::string whole = read_file(path_);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      dir_.write("log", changed);
      const Records read_back = read();
      ASSERT_EQ(status_.ok(), at >= kHeadBytes) << "byte " << at;
      const std::size_t n = at < kHeadBytes ? 0 : whole_before(records_, at);
      ASSERT_EQ(read_back, Records(records_.begin(), records_.begin() + static_cast<long>(n)))
          << "byte " << at;
    }
  }
}

TEST_F(RecordLogTest, ZerosAfterTheEndAreNotRecords) {
  append_all(path_, records_);
  dir_.write("log", read_file(path_) + std::string(4096, '\0'));
  EXPECT_EQ(read(), records_);
}

TEST_F(RecordLogTest, RecordsThatDoNotFitLeaveTheFileUnchanged) {
  auto log = RecordLog::create(path_);
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE(log->append("kept").ok());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = log->bytes() + 100;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status failed = log->append(std::string(1000, 'x'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(read_file(path_).size(), log->bytes());
  ASSERT_TRUE(log->append("after").ok());
  EXPECT_EQ(read(), (Records{"kept", "after"}));
}

TEST_F(RecordLogTest, RefusesRecordsThatNoReaderWouldTake) {
  auto log = RecordLog::create(path_);
  ASSERT_TRUE(log.ok());
  EXPECT_FALSE(log->append("").ok());
  EXPECT_EQ(log->bytes(), kHeadBytes);
}

}  // namespace
}  // namespace memprofd
