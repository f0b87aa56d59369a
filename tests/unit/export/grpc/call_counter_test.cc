// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/call_counter.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/client_unary_call.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "daemon/util/guard.h"
#include "memprof/v1/profiler.grpc.pb.h"
#include "memprof/v1/rss.grpc.pb.h"
#include "tests/unit/export/grpc/counted_server.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

RequestCounts::Kind kind(const std::string& type, const std::string& service,
                         const std::string& method) {
  return {{"grpc_type", type}, {"grpc_service", service}, {"grpc_method", method}};
}

class CallCounterTest : public CountedServer {
 protected:
  CallCounterTest() {
    channel_ = grpc::CreateChannel("unix:" + socket_, grpc::InsecureChannelCredentials());
    stub_ = pb::Profiler::NewStub(channel_);
  }

  // Waits until that many have ended, because a client may get its answer before that is counted.
  RequestCounts::Counts counts_of(const RequestCounts::Kind& kind, std::uint64_t ended) {
    for (int i = 0; i < 10'000; ++i) {
      const auto all = stats_->grpc.all();
      const auto found = all.find(kind);
      std::uint64_t all_ended = 0;
      if (found != all.end()) {
        for (const auto& [code, count] : found->second.ended) all_ended += count;
      }
      if (all_ended >= ended) return found->second;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "not so many have ended";
    return {};
  }

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::Profiler::Stub> stub_;
};

TEST_F(CallCounterTest, AnExceptionCountsAsAnError) {
  const std::uint64_t before = unexpected_errors();
  service_.on_rss = [] { throw std::bad_alloc(); };
  const auto memory = pb::Memory::NewStub(channel_);
  grpc::ClientContext context;
  pb::GetRssRequest request;
  request.set_pid(::getpid());
  pb::GetRssResponse response;
  const grpc::Status status = memory->GetRss(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("see its log"));
  EXPECT_EQ(before + 1, unexpected_errors());
}

TEST_F(CallCounterTest, CallsByMethodAndCode) {
  for (const std::uint32_t limit : {1u, 2u}) {
    grpc::ClientContext context;
    pb::ListSitesRequest request;
    request.set_pid(4242);
    request.set_limit(limit);
    pb::ListSitesResponse response;
    EXPECT_TRUE(stub_->ListSites(&context, request, &response).ok());
  }
  grpc::ClientContext context;
  pb::ListSitesRequest nobody;
  nobody.set_pid(77);
  pb::ListSitesResponse response;
  EXPECT_EQ(stub_->ListSites(&context, nobody, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  const auto counts = counts_of(kind("unary", "memprof.v1.Profiler", "ListSites"), 3);
  EXPECT_EQ(counts.begun, 3u);
  EXPECT_THAT(counts.ended, UnorderedElementsAre(Pair("OK", 2), Pair("NotFound", 1)));
  EXPECT_GT(counts.durations.sum_seconds, 0);
}

// The call is active until its client has left.
TEST_F(CallCounterTest, AStreamIsCountedAtItsEnd) {
  const auto watching = kind("server_stream", "memprof.v1.Profiler", "WatchSites");
  grpc::ClientContext context;
  pb::WatchSitesRequest request;
  request.mutable_query()->set_pid(4242);
  request.set_interval_seconds(3600);
  const auto reader = stub_->WatchSites(&context, request);
  pb::ListSitesResponse sites;
  ASSERT_TRUE(reader->Read(&sites));
  const auto begun = stats_->grpc.all().at(watching);
  EXPECT_EQ(begun.begun, 1u);
  EXPECT_TRUE(begun.ended.empty());
  context.TryCancel();
  reader->Finish();
  EXPECT_EQ(counts_of(watching, 1).begun, 1u);
}

// A client makes no series up.
TEST_F(CallCounterTest, MethodsThatThereAreNotAreOne) {
  for (const char* name : {"/memprof.v1.Profiler/Nothing", "/memprof.v1.Nobody/ListTargets", "/"}) {
    const grpc::internal::RpcMethod method(name, grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    pb::ListTargetsResponse response;
    EXPECT_EQ(grpc::internal::BlockingUnaryCall(channel_.get(), method, &context,
                                                pb::ListTargetsRequest(), &response)
                  .error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
  }
  const auto counts = counts_of(kind("unknown", "unknown", "unknown"), 3);
  EXPECT_THAT(counts.ended, UnorderedElementsAre(Pair("Unimplemented", 3)));
  EXPECT_EQ(stats_->grpc.all().size(), 1u);
}

}  // namespace
}  // namespace memprofd
