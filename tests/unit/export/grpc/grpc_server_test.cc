// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/grpc/grpc_server.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/ctl/client.h"
#include "daemon/export/api/grpc_convert.h"
#include "daemon/export/api/query_service.h"
#include "daemon/export/grpc/stream_slots.h"
#include "daemon/export/grpc/unix_listener.h"
#include "daemon/util/exit_codes.h"
#include "daemon/util/fd.h"
#include "memprof/v1/profiler.grpc.pb.h"
#include "memprof/v1/rss.grpc.pb.h"
#include "tests/kit/fake_service.h"
#include "tests/kit/temp_dir.h"
#include "tests/unit/export/certificates.h"
#include "tests/unit/export/eventually.h"

// Called by LeakSanitizer. gRPC resolves names with c-ares, which leaks 10 bytes when a channel is
// closed during a look-up.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libcares\n"; }

namespace memprofd {
namespace {

using ::testing::ElementsAre;
using testing::FakeService;
using testing::fixed_target;
using ::testing::HasSubstr;
using testing::kRate;
using testing::kSampleBytes;

pb::SetRateRequest rate_request(int pid, double rate) {
  pb::SetRateRequest request;
  request.set_pid(pid);
  request.set_sampling_rate(rate);
  return request;
}

grpc::ByteBuffer bytes(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

std::string text(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  return buffer.TrySingleSlice(&slice).ok()
             ? std::string(reinterpret_cast<const char*>(slice.begin()), slice.size())
             : "";
}

class GrpcServerTest : public ::testing::Test {
 protected:
  GrpcServerTest() {
    auto server = GrpcServer::start({socket_, ""}, service_, traces_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel("unix:" + socket_, grpc::InsecureChannelCredentials());
    stub_ = pb::Profiler::NewStub(channel_);
  }

  // First message of the answer to a message sent on any method.
  std::string raw_call(const std::string& method, const std::string& message) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto next = [&] {
      void* tag;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, method, &queue);
    grpc::ByteBuffer answer;
    call->StartCall(nullptr);
    if (!next()) return "";
    call->Write(bytes(message), nullptr);
    if (!next()) return "";
    call->Read(&answer, nullptr);
    if (!next()) return "";
    const std::string out = text(answer);
    context.TryCancel();
    grpc::Status status;
    call->Finish(&status, nullptr);
    next();
    return out;
  }

  TempDir dir_;
  const std::string socket_ = dir_.path("run/memprofd.sock");
  FakeService service_{{fixed_target()}};
  TraceService traces_{service_, {}};
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::Profiler::Stub> stub_;
};

TEST_F(GrpcServerTest, SocketIsForOwnerAndGroupOnly) {
  struct stat status {};
  ASSERT_EQ(::stat(socket_.c_str(), &status), 0);
  EXPECT_TRUE(S_ISSOCK(status.st_mode));
  EXPECT_EQ(status.st_mode & 0777, 0660u);
  ASSERT_EQ(::stat(dir_.path("run").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0755u);
  server_.reset();
  EXPECT_NE(::stat(socket_.c_str(), &status), 0) << "the socket is left behind";
}

TEST_F(GrpcServerTest, SecondServerOnTheSocketIsRefused) {
  const auto second = GrpcServer::start({socket_, ""}, service_, traces_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another memprofd listens there"));
  pb::ListTargetsResponse response;  // the first one continues
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->ListTargets(&context, {}, &response).ok());
}

TEST_F(GrpcServerTest, HealthAndReflection) {
  const std::string serving = "\x08\x01";
  EXPECT_EQ(raw_call("/grpc.health.v1.Health/Check", ""), serving);
  const std::string name = "memprof.v1.Profiler";
  EXPECT_EQ(raw_call("/grpc.health.v1.Health/Check",
                     absl::StrCat("\n", std::string(1, static_cast<char>(name.size())), name)),
            serving);
  const std::string services = raw_call(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", std::string("\x3a\x00", 2));
  EXPECT_THAT(services, HasSubstr("memprof.v1.Profiler"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
}

TEST_F(GrpcServerTest, ListsTargets) {
  auto odd = fixed_target(4300);
  odd->info.comm = "b\xFF";
  odd->info.state = TargetState::kFailed;
  odd->gc = GcStats{};
  service_.set({fixed_target(), odd});
  ctl::Client client({socket_, ""});
  const auto response = client.list_targets();
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->targets_size(), 2);
  const pb::Target& target = response->targets(0);
  EXPECT_EQ(target.pid(), 4242);
  EXPECT_EQ(target.state(), pb::TARGET_STATE_SAMPLING);
  EXPECT_EQ(target.allocated().bytes(), 274053 * kSampleBytes);
  EXPECT_EQ(target.allocated().samples(), 274053u);
  EXPECT_NEAR(target.allocated().bytes_stderr(), std::sqrt(274053.0 * (1 - kRate)) * kSampleBytes,
              1);
  EXPECT_EQ(target.dropped_events(), 9u);
  EXPECT_EQ(target.mode(), "agent");
  EXPECT_EQ(target.target_mode(), pb::TARGET_MODE_AGENT);
  EXPECT_EQ(target.capture(), "runtime");
  EXPECT_EQ(target.captured_by(), pb::CAPTURED_BY_RUNTIME);
  EXPECT_EQ(target.process_start_ticks(), testing::kStartTicks);
  ASSERT_EQ(target.drops_size(), 2);
  EXPECT_EQ(target.drops(0).reason(), "capture_ring_full");
  EXPECT_EQ(target.gc().heap_bytes(), 64u << 20);
  EXPECT_EQ(target.gc().minor_pauses().count(), 1053u);
  EXPECT_DOUBLE_EQ(target.gc().minor_pauses().p50_seconds(), 32.768e-6);
  EXPECT_DOUBLE_EQ(target.gc().minor_pauses().p99_seconds(), 1.048576e-3);
  EXPECT_EQ(response->targets(1).comm(), "b\xEF\xBF\xBD");
  EXPECT_FALSE(response->targets(1).has_gc());
}

TEST_F(GrpcServerTest, ListsSitesInTheOrderAsked) {
  ctl::Client client({socket_, ""});
  pb::ListSitesRequest request;
  request.set_pid(4242);
  request.set_order(pb::MEASURE_ALLOCATED);
  request.set_limit(2);
  request.set_with_callstacks(true);
  const auto response = client.list_sites(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->sites_size(), 2);
  EXPECT_EQ(response->sites(0).function(), "Parser.token");
  EXPECT_EQ(response->sites(1).function(), "Cache.fill");
  const pb::Site& site = response->sites(1);
  EXPECT_EQ(site.file(), "bin/cache.ml");
  EXPECT_EQ(site.line(), 58u);
  EXPECT_EQ(site.samples(), 14000u);
  EXPECT_EQ(site.live().bytes(), 800 * kSampleBytes);
  EXPECT_EQ(site.died_young().samples(), 11000u);
  EXPECT_EQ(site.lifetime().samples(), 13200u);
  EXPECT_GT(site.lifetime().p90_seconds(), site.lifetime().p50_seconds());
  ASSERT_EQ(site.lifetime().buckets_size(), 1);
  EXPECT_EQ(site.lifetime().buckets(0).count(), 13200u);
  ASSERT_EQ(site.callstack_size(), 3);
  EXPECT_EQ(site.callstack(2).function(), "Server.loop");
  EXPECT_EQ(site.callstack(2).start_column(), 4u);
  EXPECT_EQ(response->time_unix_ns(), 1'700'000'600'000'000'000);

  request.set_pattern("sessions");
  request.set_with_callstacks(false);
  const auto matching = client.list_sites(request);
  ASSERT_EQ(matching->sites_size(), 1);
  EXPECT_EQ(matching->sites(0).callstack_size(), 0);
}

TEST_F(GrpcServerTest, ReportsItsVersionAndLimits) {
  const auto info = ctl::Client({socket_, ""}).server_info();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), program_version().version);
  EXPECT_EQ(info->api_version(), "v1");
  EXPECT_GT(info->started_unix_ns(), 0);
  EXPECT_EQ(info->limits().max_page_rows(), 1000u);
}

// The sites are so many that their profile has several pieces.
TEST_F(GrpcServerTest, AProfileComesInPieces) {
  auto many = fixed_target();
  for (std::uint64_t i = 0; i < 40'000; ++i) {
    testing::add_callstack(*many, {1'000'000 + i, 2'000'000 + i, 2, 3},
                           {.allocated = 10, .live = 1});
  }
  service_.set({many});
  pb::GetProfileRequest request;
  request.add_pids(4242);
  request.set_format(pb::PROFILE_FORMAT_COLLAPSED);
  grpc::ClientContext context;
  const auto stream = stub_->StreamProfile(&context, request);
  pb::StreamProfileResponse piece;
  std::string data;
  std::uint64_t total = 0;
  int pieces = 0;
  while (stream->Read(&piece)) {
    EXPECT_LE(piece.data().size(), kProfilePieceBytes);
    EXPECT_EQ(piece.file_name(), pieces == 0 ? "server_exe-4242.collapsed" : "");
    total += piece.total_bytes();
    data += piece.data();
    ++pieces;
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_GT(pieces, 1);
  EXPECT_EQ(total, data.size());
  const auto whole = QueryService(service_).get_profile(request);
  EXPECT_TRUE(data == whole->data());
  const auto asked = ctl::Client({socket_, ""}).get_profile(request);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(asked->file_name(), whole->file_name());
  EXPECT_EQ(asked->content_type(), whole->content_type());
  EXPECT_TRUE(asked->data() == whole->data());
}

TEST_F(GrpcServerTest, AProfileOfNoTargetIsRefusedInAStreamToo) {
  pb::GetProfileRequest request;
  request.add_pids(1);
  EXPECT_EQ(ctl::Client({socket_, ""}).get_profile(request).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(OlderDaemon, IsNamedByTheExitCode) {
  TempDir dir;
  pb::Trace::Service other;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + dir.path("socket"), grpc::InsecureServerCredentials());
  builder.RegisterService(&other);
  const auto server = builder.BuildAndStart();
  ctl::Client client({dir.path("socket"), ""});
  const absl::Status unknown = client.list_sites({}).status();
  EXPECT_EQ(exit_code_of(unknown), ExitCode::kOlderDaemon);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("is older than this memprofctl"));
}

TEST_F(GrpcServerTest, BadRequestsAreRefused) {
  ctl::Client client({socket_, ""});
  pb::ListSitesRequest sites;
  sites.set_pid(4242);
  sites.set_order(static_cast<pb::Measure>(99));
  EXPECT_EQ(client.list_sites(sites).status().code(), absl::StatusCode::kInvalidArgument);
  sites.set_order(pb::MEASURE_LIVE);
  sites.set_pid(1);
  EXPECT_EQ(client.list_sites(sites).status().code(), absl::StatusCode::kNotFound);
  for (const double rate : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_EQ(client.set_rate(rate_request(4242, rate)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << rate;
  }
  EXPECT_EQ(client.detach(0).status().code(), absl::StatusCode::kInvalidArgument);
  pb::AttachRequest attach;
  attach.set_pid(-3);
  EXPECT_EQ(client.attach(attach).status().code(), absl::StatusCode::kInvalidArgument);
  attach.set_pid(3);
  attach.set_sampling_rate(2);
  EXPECT_EQ(client.attach(attach).status().code(), absl::StatusCode::kInvalidArgument);
  attach.set_sampling_rate(0);
  for (const double share : {-0.01, 1.5, std::nan("")}) {
    attach.set_max_overhead(share);
    EXPECT_EQ(client.attach(attach).status().code(), absl::StatusCode::kInvalidArgument) << share;
  }
  EXPECT_TRUE(service_.calls().empty()) << "a bad request got through";
}

TEST_F(GrpcServerTest, ControlsTheProfiler) {
  ctl::Client client({socket_, ""});
  pb::AttachRequest request;
  request.set_pid(77);
  request.set_sampling_rate(0.5);
  request.set_no_inject(true);
  const auto attached = client.attach(request);
  ASSERT_TRUE(attached.ok()) << attached.status();
  EXPECT_EQ(attached->target().pid(), 77);
  EXPECT_EQ(attached->target().sampling_rate(), 0.5);
  EXPECT_EQ(client.set_rate(rate_request(77, 0.25))->pid(), 77);
  pb::SetRateRequest budget = rate_request(77, 0);
  budget.set_max_overhead(0.005);
  EXPECT_EQ(client.set_rate(budget)->pid(), 77);
  budget.set_max_overhead(0);  // none
  EXPECT_EQ(client.set_rate(budget)->pid(), 77);
  EXPECT_EQ(client.detach(77)->pid(), 77);
  EXPECT_THAT(service_.calls(),
              ElementsAre("attach 77 0.5 1", "rate 77 0.25", "rate 77 0", "max_overhead 0.005",
                          "rate 77 0", "max_overhead 0", "detach 77"));
}

// A pid may be another program's by the time that a request comes.
TEST_F(GrpcServerTest, RequestsThatMeanAnotherProgramDoNothing) {
  ctl::Client client({socket_, ""});
  const auto ask_all = [&](std::uint64_t ticks) {
    pb::AttachRequest attach;
    attach.set_pid(77);
    attach.set_process_start_ticks(ticks);
    pb::SetRateRequest rate = rate_request(77, 0.25);
    rate.set_process_start_ticks(ticks);
    pb::TakeSnapshotRequest snapshot;
    snapshot.set_pid(77);
    snapshot.set_process_start_ticks(ticks);
    pb::DetachRequest detach;
    detach.set_pid(77);
    detach.set_process_start_ticks(ticks);
    pb::DetachResponse detached;
    grpc::ClientContext context;
    const grpc::Status status = stub_->Detach(&context, detach, &detached);
    const absl::Status detaching(static_cast<absl::StatusCode>(status.error_code()),
                                 status.error_message());
    return std::vector<absl::Status>{
        client.attach(attach).status(), client.set_rate(rate).status(),
        client.take_snapshot(snapshot, [](const auto&) { return absl::OkStatus(); }), detaching};
  };
  for (const absl::Status& status : ask_all(testing::kStartTicks + 1)) {
    EXPECT_EQ(status,
              absl::FailedPreconditionError("pid 77 is now another program than the target; "
                                            "`memprofctl targets` lists all targets"));
  }
  EXPECT_THAT(service_.calls(), ElementsAre());
  for (const absl::Status& status : ask_all(testing::kStartTicks)) EXPECT_TRUE(status.ok());
  EXPECT_EQ(service_.calls().size(), 4u);
}

TEST_F(GrpcServerTest, AnUnnecessaryAttachIsNotAnError) {
  ctl::Client client({socket_, ""});
  service_.fail_with(absl::AlreadyExistsError("is already profiled"));
  pb::AttachRequest request;
  request.set_pid(4242);
  EXPECT_EQ(client.attach(request).status(), absl::AlreadyExistsError("is already profiled"));
  request.set_if_needed(true);
  const auto there = client.attach(request);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_TRUE(there->already_profiled());
  EXPECT_EQ(there->target().sampling_rate(), kRate);
  request.set_pid(77);  // by another memprofd
  EXPECT_EQ(client.attach(request).status(), absl::AlreadyExistsError("is already profiled"));
  service_.fail_with(absl::OkStatus());
  EXPECT_FALSE(client.attach(request)->already_profiled());
}

// Codes that memprofctl's exit code follows from.
TEST_F(GrpcServerTest, WhatASnapshotWaitedForInVain) {
  ctl::Client client({socket_, ""});
  pb::TakeSnapshotRequest request;
  request.set_pid(77);
  const auto use = [](const pb::TakeSnapshotResponse&) { return absl::OkStatus(); };
  service_.fail_with(absl::DeadlineExceededError("pid 77 allocates nothing"));
  EXPECT_EQ(client.take_snapshot(request, use),
            absl::ResourceExhaustedError("pid 77 allocates nothing"));
  service_.fail_with(absl::AbortedError("pid 77 ended"));
  EXPECT_EQ(client.take_snapshot(request, use), absl::NotFoundError("pid 77 ended"));
  service_.fail_with(absl::AlreadyExistsError("pid 77: another one is being taken"));
  EXPECT_EQ(client.take_snapshot(request, use),
            absl::ResourceExhaustedError("pid 77: another one is being taken"));
}

TEST_F(GrpcServerTest, StreamsASnapshotAndItsSummary) {
  ctl::Client client({socket_, ""});
  pb::TakeSnapshotRequest request;
  request.set_pid(77);
  std::string file;
  std::vector<double> pauses;
  const auto use = [&](const pb::TakeSnapshotResponse& response) {
    file += response.data();
    if (response.has_summary()) pauses.push_back(response.summary().pause_seconds());
    return absl::OkStatus();
  };
  EXPECT_TRUE(client.take_snapshot(request, use).ok());
  EXPECT_EQ("onetwo", file);
  EXPECT_THAT(pauses, ElementsAre(0.001));
  request.set_max_pause_seconds(0.25);
  EXPECT_TRUE(client.take_snapshot(request, use).ok());
  for (const double bad : {-1.0, 61.0, std::nan("")}) {
    request.set_max_pause_seconds(bad);
    EXPECT_EQ(client.take_snapshot(request, use).code(), absl::StatusCode::kInvalidArgument);
  }
  service_.fail_with(absl::FailedPreconditionError("pid 77: too large"));
  request.set_max_pause_seconds(0);
  EXPECT_EQ(client.take_snapshot(request, use), absl::FailedPreconditionError("pid 77: too large"));
  EXPECT_THAT(service_.calls(),
              ElementsAre("snapshot 77 0.05", "snapshot 77 0.25", "snapshot 77 0.05"));
}

TEST_F(GrpcServerTest, ASnapshotHasContentsForWhoAsksForThem) {
  ctl::Client client({socket_, ""});
  pb::TakeHeapRequest request;
  request.mutable_snapshot()->set_pid(77);
  std::string file;
  const auto use = [&](const pb::TakeSnapshotResponse& response) {
    file += response.data();
    return absl::OkStatus();
  };
  EXPECT_TRUE(client.take_heap(request, use).ok());
  EXPECT_EQ("onetwo", file);
  request.set_contents(pb::HEAP_CONTENTS_FINGERPRINTS);
  EXPECT_TRUE(client.take_heap(request, use).ok());
  request.set_contents(pb::HEAP_CONTENTS_ALL);
  EXPECT_TRUE(client.take_heap(request, use).ok());
  request.set_contents(static_cast<pb::HeapContents>(3));
  EXPECT_EQ(client.take_heap(request, use), absl::InvalidArgumentError("unknown kind of contents"));
  EXPECT_THAT(service_.calls(),
              ElementsAre("snapshot 77 0.05", "snapshot 77 0.05 with fingerprints",
                          "snapshot 77 0.05 with contents"));
}

TEST_F(GrpcServerTest, ErrorsKeepTheirCodeAndText) {
  ctl::Client client({socket_, ""});
  const absl::StatusCode codes[] = {
      absl::StatusCode::kInvalidArgument,   absl::StatusCode::kNotFound,
      absl::StatusCode::kAlreadyExists,     absl::StatusCode::kPermissionDenied,
      absl::StatusCode::kResourceExhausted, absl::StatusCode::kFailedPrecondition,
      absl::StatusCode::kAborted,           absl::StatusCode::kUnimplemented,
      absl::StatusCode::kInternal,          absl::StatusCode::kUnavailable,
      absl::StatusCode::kDataLoss};
  for (const absl::StatusCode code : codes) {
    const std::string message = absl::StrCat("pid 5: because; do that ", static_cast<int>(code));
    service_.fail_with(absl::Status(code, message));
    pb::AttachRequest request;
    request.set_pid(5);
    EXPECT_EQ(client.attach(request).status(), absl::Status(code, message));
    EXPECT_EQ(client.detach(5).status().code(), code);
    EXPECT_EQ(client.set_rate(rate_request(5, 0.1)).status().code(), code);
  }
}

TEST_F(GrpcServerTest, WatchSitesStreamsUntilTheTargetIsForgotten) {
  grpc::ClientContext context;
  pb::WatchSitesRequest request;
  request.mutable_query()->set_pid(4242);
  request.set_interval_seconds(0.1);
  const auto stream = stub_->WatchSites(&context, request);
  pb::ListSitesResponse message;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(stream->Read(&message));
    EXPECT_EQ(message.sites_size(), 4);
  }
  service_.set({});
  while (stream->Read(&message)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, WatchSitesEndsWithTheServer) {
  grpc::ClientContext context;
  pb::WatchSitesRequest request;
  request.mutable_query()->set_pid(4242);
  request.set_interval_seconds(3600);
  const auto stream = stub_->WatchSites(&context, request);
  pb::ListSitesResponse message;
  ASSERT_TRUE(stream->Read(&message));
  const auto before = std::chrono::steady_clock::now();
  server_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
  EXPECT_FALSE(stream->Read(&message));
}

TEST_F(GrpcServerTest, WaitingCallsAreLimitedAndLeaveThreads) {
  std::latch release(1);
  std::atomic<int> waiting = 0, refused = 0;
  service_.on_rss = [&] {
    ++waiting;
    release.wait();
  };
  constexpr int kCalls = 100;
  const int most = ::getuid() == 0 ? GrpcAccess::kMaxCalls : 21;
  std::vector<std::jthread> callers;
  for (int i = 0; i < kCalls; ++i) {
    callers.emplace_back([&, i] {
      grpc::ChannelArguments own;
      own.SetInt("number", i / 10);  // a connection has a limit of its own
      const auto stub = pb::Memory::NewStub(
          grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), own));
      grpc::ClientContext context;
      pb::GetRssRequest request;
      request.set_pid(::getpid());
      pb::GetRssResponse response;
      const grpc::Status status = stub->GetRss(&context, request, &response);
      if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return;
      EXPECT_THAT(status.error_message(), HasSubstr("calls are under way"));
      ++refused;
    });
  }
  while (refused < kCalls - most) std::this_thread::yield();
  EXPECT_EQ(waiting, most);
  pb::GetServerInfoRequest request;
  pb::GetServerInfoResponse response;
  grpc::ClientContext context;
  EXPECT_TRUE(stub_->GetServerInfo(&context, request, &response).ok()) << "threads are left";
  release.count_down();
}

TEST_F(GrpcServerTest, StreamsLeaveRoomForCalls) {
  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<pb::ListSitesResponse>> stream;
  };
  std::vector<std::unique_ptr<Watch>> watches;
  pb::WatchSitesRequest request;
  request.mutable_query()->set_pid(4242);
  request.set_interval_seconds(3600);
  pb::ListSitesResponse message;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < StreamSlots::kSlots + 1; ++i) {
    if (i % 8 == 0) {  // a connection has a limit of its own
      grpc::ChannelArguments own;
      own.SetInt("number", i);
      channels.push_back(
          grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), own));
    }
    watches.push_back(std::make_unique<Watch>());
    watches.back()->stream =
        pb::Profiler::NewStub(channels.back())->WatchSites(&watches.back()->context, request);
    EXPECT_EQ(watches.back()->stream->Read(&message), i < StreamSlots::kSlots) << i;
  }
  const grpc::Status refused = watches.back()->stream->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("32 streams are open"));
  EXPECT_TRUE(ctl::Client({socket_, ""}).detach(4242).ok());
  watches.front()->context.TryCancel();
  const auto again = [&] {
    grpc::ClientContext context;
    const bool read = stub_->WatchSites(&context, request)->Read(&message);
    context.TryCancel();
    return read;
  };
  while (!again()) {
  }
  for (auto& watch : watches) watch->context.TryCancel();
}

// Its connection is read: the library takes data up to the stream's window.
TEST_F(GrpcServerTest, AStreamWithUnreadMessagesEnds) {
  const auto stats = std::make_shared<ServerStats>();
  const std::string socket = socket_ + "-strict";
  auto server = GrpcServer::start(
      {.socket_path = socket, .stats = stats, .stream_patience = std::chrono::milliseconds(200)},
      service_, traces_);
  ASSERT_TRUE(server.ok()) << server.status();
  grpc::ChannelArguments narrow;
  narrow.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  narrow.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 0);
  const auto stub = pb::Profiler::NewStub(
      grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), narrow));
  grpc::ClientContext context;
  pb::WatchSitesRequest request;
  request.mutable_query()->set_pid(4242);
  request.set_interval_seconds(0.1);
  const auto stream = stub->WatchSites(&context, request);
  while (stats->grpc_cut_off == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  while (stats->grpc_streams > 0) std::this_thread::yield();
  pb::ListTargetsResponse targets;
  grpc::ClientContext another;
  EXPECT_TRUE(stub->ListTargets(&another, {}, &targets).ok());
  context.TryCancel();
}

// A user has a limit of connections, which silent ones must not occupy forever.
TEST(GrpcServerStart, ConnectionsWithoutACallEnd) {
  TempDir dir;
  FakeService service({fixed_target()});
  TraceService traces(service, {});
  const std::string path = dir.path("a.sock");
  const auto server = GrpcServer::start(
      {.socket_path = path, .idle_patience = std::chrono::milliseconds(300)}, service, traces);
  ASSERT_TRUE(server.ok()) << server.status();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < UnixListenerLimits().connections_a_user; ++i) {
    silent.emplace_back(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::connect(silent.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
              0);
  }
  for (const UniqueFd& fd : silent) {
    std::array<char, 256> got{};
    while (::recv(fd.get(), got.data(), got.size(), 0) > 0) {
    }
  }
  EXPECT_TRUE(ctl::Client({path, ""}).list_targets().ok());
}

TEST_F(GrpcServerTest, WatchSitesRefusesBadIntervals) {
  for (const double interval : {0.01, -1.0, 1e9, std::nan("")}) {
    grpc::ClientContext context;
    pb::WatchSitesRequest request;
    request.mutable_query()->set_pid(4242);
    request.set_interval_seconds(interval);
    const auto stream = stub_->WatchSites(&context, request);
    pb::ListSitesResponse message;
    EXPECT_FALSE(stream->Read(&message));
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << interval;
  }
}

TEST_F(GrpcServerTest, Diagnoses) {
  ctl::Client client({socket_, ""});
  const auto findings = client.diagnose(9);
  ASSERT_EQ(findings->findings_size(), 3);
  EXPECT_EQ(findings->findings(1).level(), pb::FINDING_LEVEL_WARNING);
  EXPECT_EQ(findings->findings(2).remedy(), "give the pid of one");
  EXPECT_EQ(client.diagnose(0)->findings_size(), 2);
  EXPECT_EQ(client.diagnose(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GrpcServerTest, ReportsWhereResidentMemoryIs) {
  ctl::Client client({socket_, ""});
  const auto answer = client.get_rss(4242);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->rss_bytes(), 8192u);
  ASSERT_EQ(answer->parts_size(), 2);
  EXPECT_EQ(answer->parts(0).kind(), "malloc_used");
  EXPECT_EQ(answer->parts(0).size_bytes(), 8192u);
  EXPECT_EQ(answer->parts(1).name(), "/bin/server");
  EXPECT_FALSE(answer->has_no_owner());
  EXPECT_EQ(client.get_rss(0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GrpcServerTest, ReportsWhatCustomBlocksHold) {
  ctl::Client client({socket_, ""});
  const auto answer = client.get_rss(4242, true);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->owners_size(), 1);
  EXPECT_EQ(answer->owners(0).identifier(), "_zip");
  EXPECT_EQ(answer->owners(0).blocks(), 2u);
  EXPECT_EQ(answer->owners(0).chunks(), 3u);
  EXPECT_EQ(answer->owners(0).bytes(), 70u);
  EXPECT_EQ(answer->owners(0).resident_bytes(), 60u);
  EXPECT_EQ(answer->no_owner().bytes(), 30u);
}

// ---------------------------------------------------------------- addresses

TEST(GrpcServerStart, RemovesAStaleSocket) {
  const TempDir dir;
  const std::string path = dir.path("stale.sock");
  {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  FakeService service({fixed_target()});
  TraceService traces(service, {});
  const auto server = GrpcServer::start({path, ""}, service, traces);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(ctl::Client({path, ""}).list_targets().ok());
}

TEST(GrpcServerStart, LeavesOtherFilesAlone) {
  const TempDir dir;
  const std::string path = dir.write("precious", "data");
  FakeService service;
  TraceService traces(service, {});
  const auto server = GrpcServer::start({path, ""}, service, traces);
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(read_file(path), "data");
  EXPECT_EQ(
      GrpcServer::start({dir.path(std::string(200, 'x')), ""}, service, traces).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GrpcServer::start({path + "/below/a.sock", ""}, service, traces).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::string deep = dir.path("a/typing/error/a.sock");
  EXPECT_EQ(GrpcServer::start({deep, ""}, service, traces).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_NE(::access(dir.path("a").c_str(), F_OK), 0) << "folders were made for a typing error";
}

TEST(GrpcServerStart, ServesTcpWhenAsked) {
  FakeService service({fixed_target()});
  TraceService traces(service, {});
  const auto server = GrpcServer::start({"", "127.0.0.1:0"}, service, traces);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = absl::StrCat("127.0.0.1:", (*server)->port());
  EXPECT_EQ(ctl::Client({"", address}).list_targets()->targets_size(), 1);
  const auto second = GrpcServer::start({"", address}, service, traces);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--grpc.listen-address"));
  EXPECT_EQ(GrpcServer::start({"", "nonsense"}, service, traces).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(GrpcServerStart, OverTcpItOnlyAnswersQuestions) {
  FakeService service({fixed_target()});
  TraceService traces(service, {});
  const auto server = GrpcServer::start({"", "127.0.0.1:0"}, service, traces);
  ASSERT_TRUE(server.ok()) << server.status();
  ctl::Client client({"", absl::StrCat("127.0.0.1:", (*server)->port())});
  EXPECT_TRUE(client.list_targets().ok());
  pb::AttachRequest attach;
  attach.set_pid(4242);
  EXPECT_EQ(client.attach(attach).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(client.set_rate(rate_request(4242, 0.1)).status().code(),
            absl::StatusCode::kPermissionDenied);
  const absl::Status refused = client.detach(4242).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--grpc.controllers"));
  EXPECT_EQ(client.stop_trace(1).status().code(), absl::StatusCode::kPermissionDenied);
  pb::TakeSnapshotRequest snapshot;
  snapshot.set_pid(4242);
  EXPECT_EQ(client.take_snapshot(snapshot, [](const auto&) { return absl::OkStatus(); }).code(),
            absl::StatusCode::kPermissionDenied);
  pb::TraceOptions trace;
  trace.set_pid(4242);
  EXPECT_EQ(client.start_trace(trace).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(service.calls().empty());
}

TEST(GrpcServerStart, OtherMachinesNeedCertificates) {
  FakeService service;
  TraceService traces(service, {});
  for (const char* address : {"0.0.0.0:0", ":0", "[::]:0"}) {
    const auto server = GrpcServer::start({"", address}, service, traces);
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(server.status().message()), HasSubstr("--grpc.tls.client-ca-file"));
  }
  const auto missing = GrpcServer::start(
      {.listen_address = "0.0.0.0:0", .tls = {"/none/c.pem", "/none/k.pem", "/none/ca.pem"}},
      service, traces);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("--grpc.tls.cert-file /none/c.pem: cannot be read"));
}

class GrpcTlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_openssl()) GTEST_SKIP() << "no openssl";
    sign_all();
  }
  // The same files get a certificate of a new authority.
  void sign_all() {
    testing::Certificates certificates(dir_.path());
    for (const char* name : {"localhost", "ops", "looker"}) certificates.sign(name);
  }
  grpc::Status detach(int port, const std::string& name) {
    grpc::SslCredentialsOptions options{.pem_root_certs = read_file(dir_.path("ca.pem"))};
    if (!name.empty()) {
      options.pem_private_key = read_file(dir_.path(name + ".key"));
      options.pem_cert_chain = read_file(dir_.path(name + ".pem"));
    }
    const auto stub = pb::Profiler::NewStub(
        grpc::CreateChannel(absl::StrCat("localhost:", port), grpc::SslCredentials(options)));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    pb::DetachRequest request;
    request.set_pid(4242);
    pb::DetachResponse response;
    return stub->Detach(&context, request, &response);
  }

  TempDir dir_;
};

TEST_F(GrpcTlsTest, TheCertificateSaysWhoMayControl) {
  FakeService service({fixed_target()});
  TraceService traces(service, {});
  const auto server = GrpcServer::start(
      {.listen_address = "0.0.0.0:0",
       .tls = {dir_.path("localhost.pem"), dir_.path("localhost.key"), dir_.path("ca.pem")},
       .access = {.controllers = {"ops"}}},
      service, traces);
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  EXPECT_EQ(detach(port, "ops").error_code(), grpc::StatusCode::OK);
  EXPECT_EQ(detach(port, "looker").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(detach(port, "").error_code(), grpc::StatusCode::UNAVAILABLE)
      << "without a certificate";
  EXPECT_FALSE(ctl::Client({"", absl::StrCat("127.0.0.1:", port)}).list_targets().ok())
      << "without TLS";
  EXPECT_THAT(service.calls(), ElementsAre("detach 4242"));
}

TEST_F(GrpcTlsTest, CertificatesAreReloaded) {
  FakeService service({fixed_target()});
  TraceService traces(service, {});
  const auto server = GrpcServer::start(
      {.listen_address = "127.0.0.1:0",
       .tls = {dir_.path("localhost.pem"), dir_.path("localhost.key"), dir_.path("ca.pem")},
       .access = {.controllers = {"ops"}}},
      service, traces);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(detach((*server)->port(), "ops").ok());
  sign_all();
  ASSERT_TRUE(testing::eventually([&] { return detach((*server)->port(), "ops").ok(); }))
      << "neither ours nor theirs is trusted yet";
}

TEST(GrpcAccess, UsersControlTheirOwnPrograms) {
  const GrpcAccess own({}), all({.group_controls = true});
  const auto caller = [](uid_t uid) {
    return GrpcCaller{.name = "", .peer = UnixPeer{.pid = 1, .uid = uid, .gid = ::getgid()}};
  };
  const int here = ::getpid();
  for (const auto& asked :
       {own.process_for(caller(0), here, 7), own.process_for(caller(::geteuid()), here, 7),
        all.process_for(caller(::getuid() + 1), here, 7)}) {
    ASSERT_TRUE(asked.ok()) << asked.status();
    EXPECT_EQ(*asked, RequestedProcess(here, 7)) << "for whoever has it";
  }
  const GrpcCaller other = caller(::getuid() + 1);
  const absl::Status refused = own.process_for(other, here).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--grpc.group-controls"));
  EXPECT_FALSE(own.process_for(other, 0).ok());
  EXPECT_FALSE(own.check_control(other).ok());
  EXPECT_TRUE(all.check_control(other).ok());
  // Its later owner is unknown.
  constexpr int kNobody = 1 << 30;
  EXPECT_EQ(own.process_for(other, kNobody).status().code(), absl::StatusCode::kNotFound);
}

// The request holds the inspected process and the user; the client's statement counts too.
TEST(GrpcAccess, BindsTheProcess) {
  if (::geteuid() != 0) GTEST_SKIP() << "root alone makes programs of other users";
  const pid_t child = ::fork();
  if (child == 0) {
    const bool changed = ::syscall(SYS_setresgid, 1000, 1000, 1000) == 0 &&
                         ::syscall(SYS_setresuid, 1000, 1000, 1000) == 0;
    if (changed) ::execlp("sleep", "sleep", "1000", nullptr);
    ::_exit(127);
  }
  const GrpcAccess access({});
  const GrpcCaller user{.name = "", .peer = UnixPeer{.pid = 1, .uid = 1000, .gid = 1000}};
  ASSERT_TRUE(testing::eventually([&] { return access.process_for(user, child).ok(); }));
  const RequestedProcess asked = access.process_for(user, child).value();
  EXPECT_NE(asked.start_time_ticks, 0u);
  EXPECT_EQ(asked.user, (ProcessUser{1000, 1000}));
  EXPECT_EQ(access.process_for(user, child, asked.start_time_ticks).value(), asked);
  EXPECT_EQ(access.process_for(user, child, asked.start_time_ticks + 1).status().code(),
            absl::StatusCode::kFailedPrecondition);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(Client, ReportsThatMemprofdDoesNotAnswer) {
  const TempDir dir;
  const std::string path = dir.path("nobody.sock");
  const absl::Status status = ctl::Client({path, ""}).list_targets().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      status.message(),
      absl::StrCat("memprofd does not answer at unix:", path,
                   "; start it (memprofd --pid PID), or pass its --grpc.socket or --address"));
}

}  // namespace
}  // namespace memprofd
