// SPDX-License-Identifier: Apache-2.0
// StreamEvents over a real connection. event_stream_test.cc tests the contents of its messages.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "absl/strings/str_cat.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/grpc/grpc_server.h"
#include "memprof/v1/profiler.grpc.pb.h"
#include "tests/kit/fake_events.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"

namespace memprofd {
namespace {

using std::chrono::steady_clock;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;
using testing::numbered_chunk;

constexpr int kPid = 4242;

class GrpcEventsTest : public ::testing::Test {
 protected:
  GrpcEventsTest() {
    auto target = fixed_target(kPid);
    target->events = log_;
    service_.set({target, fixed_target(4300)});
    auto server = GrpcServer::start({socket_, ""}, service_, traces_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = pb::Profiler::NewStub(
        grpc::CreateChannel("unix:" + socket_, grpc::InsecureChannelCredentials()));
  }

  static pb::StreamEventsRequest request(int pid = kPid) {
    pb::StreamEventsRequest request;
    request.set_pid(pid);
    return request;
  }
  // Status of a refused call.
  grpc::Status refusal(const pb::StreamEventsRequest& request) {
    grpc::ClientContext context;
    const auto stream = stub_->StreamEvents(&context, request);
    pb::StreamEventsResponse message;
    EXPECT_FALSE(stream->Read(&message));
    return stream->Finish();
  }
  // Returns true if the log's last reader leaves within a second.
  bool reader_goes() {
    const auto deadline = steady_clock::now() + std::chrono::seconds(1);
    while (!log_->stop()) {
      if (steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  TempDir dir_;
  const std::string socket_ = dir_.path("memprofd.sock");
  std::shared_ptr<EventLog> log_ = std::make_shared<EventLog>();
  FakeService service_;
  TraceService traces_{service_, {}};
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<pb::Profiler::Stub> stub_;
  grpc::ClientContext context_;
  pb::StreamEventsResponse message_;
};

TEST_F(GrpcEventsTest, StreamsUntilTheTargetEnds) {
  const auto stream = stub_->StreamEvents(&context_, request());
  log_->begin(10);
  ASSERT_TRUE(stream->Read(&message_));
  EXPECT_EQ(message_.cursor().next_event(), 10u);
  EXPECT_EQ(message_.events_size(), 0) << "only says that it has begun";
  log_->append(numbered_chunk(10, 3));
  ASSERT_TRUE(stream->Read(&message_));
  EXPECT_EQ(message_.events_size(), 3);
  EXPECT_EQ(message_.cursor().log(), log_->id());
  log_->append(numbered_chunk(13, 700));
  log_->close();
  int rest = 0;
  while (stream->Read(&message_)) {
    EXPECT_LE(message_.events_size(), 512);
    rest += message_.events_size();
  }
  EXPECT_EQ(rest, 700);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(GrpcEventsTest, ResumesAtTheCursor) {
  log_->begin(0);
  log_->append(numbered_chunk(0, 100));
  pb::StreamEventsRequest resumed = request();
  resumed.mutable_cursor()->set_log(log_->id());
  resumed.mutable_cursor()->set_next_event(97);
  const auto stream = stub_->StreamEvents(&context_, resumed);
  ASSERT_TRUE(stream->Read(&message_));
  ASSERT_EQ(message_.events_size(), 3);
  EXPECT_EQ(message_.events(0).block(), 97u);
  EXPECT_EQ(message_.dropped_events(), 0u);
  context_.TryCancel();
}

TEST_F(GrpcEventsTest, ACancelledCallLeavesTheLog) {
  log_->begin(0);
  const auto stream = stub_->StreamEvents(&context_, request());
  ASSERT_TRUE(stream->Read(&message_));
  EXPECT_FALSE(log_->stop());
  context_.TryCancel();
  EXPECT_TRUE(reader_goes());
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GrpcEventsTest, EndsWithTheServer) {
  log_->begin(0);
  const auto stream = stub_->StreamEvents(&context_, request());
  ASSERT_TRUE(stream->Read(&message_));
  const auto before = steady_clock::now();
  server_.reset();
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(1));
  EXPECT_FALSE(stream->Read(&message_));
}

TEST_F(GrpcEventsTest, AReaderThatDoesNotReadBlocksNoOther) {
  log_->begin(0);
  const auto stream = stub_->StreamEvents(&context_, request());
  ASSERT_TRUE(stream->Read(&message_));
  // Far more than the log and the connection hold.
  constexpr std::uint64_t kEvents = 1'000'000;
  constexpr std::uint64_t kChunk = 500;
  for (std::uint64_t first = 0; first < kEvents; first += kChunk) {
    log_->append(numbered_chunk(first, kChunk));
  }
  log_->close();
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;
  while (stream->Read(&message_)) {
    events += static_cast<std::uint64_t>(message_.events_size());
    dropped += message_.dropped_events();
    EXPECT_EQ(message_.cursor().next_event(), events + dropped);
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(events + dropped, kEvents);
  EXPECT_GT(dropped, 0u);
}

TEST_F(GrpcEventsTest, RefusesInOneLine) {
  EXPECT_EQ(refusal(request(1)).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(refusal(request(4300)).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  pb::StreamEventsRequest bad = request();
  bad.mutable_filter()->set_pattern("(");
  EXPECT_EQ(refusal(bad).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  pb::StreamEventsRequest of_c = request();
  of_c.mutable_filter()->set_heap(pb::BLOCK_HEAP_C);
  EXPECT_EQ(refusal(of_c).error_code(), grpc::StatusCode::FAILED_PRECONDITION) << "not followed";
  pb::StreamEventsRequest foreign = request();
  foreign.mutable_cursor()->set_log(log_->id() ^ 1);
  const grpc::Status status = refusal(foreign);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_THAT(status.error_message(), HasSubstr("start the stream without a cursor"));
}

}  // namespace
}  // namespace memprofd
