// SPDX-License-Identifier: Apache-2.0
// Traces of targets that are logs filled by the test.
#include "daemon/export/api/trace_service.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "daemon/export/api/trace_options.h"
#include "daemon/export/grpc/grpc_server.h"
#include "daemon/export/http/api_routes.h"
#include "daemon/trace/replay.h"
#include "memprof/v1/profiler.grpc.pb.h"
#include "tests/kit/temp_dir.h"
#include "tests/kit/trace_log.h"
#include "tests/unit/export/eventually.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::TraceSource;

constexpr int kPid = 4242;

class TraceServiceTest : public ::testing::Test {
 protected:
  TraceServiceTest() {
    service_.set({target(), testing::fixed_target(4300)});
    log_->begin(0);
  }

  std::shared_ptr<ProfileSnapshot> target() const {
    auto target = testing::fixed_target(kPid);
    target->events = log_;
    target->symbolizer = std::make_shared<testing::NamingSymbolizer>();
    return target;
  }
  static pb::TraceOptions options(int pid = kPid) {
    pb::TraceOptions options;
    options.set_pid(pid);
    return options;
  }
  void happens(int allocs) {
    testing::busy_minute(source_, allocs);
    log_->append(source_.take());
  }
  std::uint64_t counted_events() const {
    const TargetCounters& totals = source_.aggregator().totals();
    return totals.alloc_events + totals.promote_events + totals.dealloc_events;
  }
  static pb::TraceInfo info(const TraceService& traces, std::uint64_t id) {
    const pb::ListTracesResponse list = traces.list();
    for (const pb::TraceInfo& trace : list.traces()) {
      if (trace.id() == id) return trace;
    }
    return {};
  }

  TempDir dir_;
  testing::FakeService service_;
  std::shared_ptr<EventLog> log_ = std::make_shared<EventLog>();
  TraceSource source_;
};

// The owner is that of the target, even if its pid is reused.
TEST_F(TraceServiceTest, IsForTheOwnerOfTheProgram) {
  constexpr ProcessUser kUser{1000, 1000}, kOther{1001, 1000};
  TraceService traces(service_, {.directory = dir_.path()});
  EXPECT_EQ(traces.start(options(), kUser).status().code(), absl::StatusCode::kPermissionDenied)
      << "it is root's";
  auto owned = target();
  owned->info.owner = kUser;
  service_.set({owned});
  EXPECT_EQ(traces.start(options(), kOther).status().code(), absl::StatusCode::kPermissionDenied);
  const auto started = traces.start(options(), kUser);
  ASSERT_TRUE(started.ok()) << started.status();
  service_.set({target()});
  EXPECT_EQ(traces.stop(started->id(), kOther).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(traces.stop(started->id(), kUser).ok());
}

TEST_F(TraceServiceTest, WritesAFileUntilItIsStopped) {
  TraceService traces(service_, {.directory = dir_.path()});
  const auto started = traces.start(options());
  ASSERT_TRUE(started.ok()) << started.status();
  ASSERT_EQ(started->files_size(), 1);
  const std::string path = started->files(0);
  EXPECT_THAT(path, MatchesRegex(dir_.path() + "/server.exe-4242-[0-9]+T[0-9]+-1\\.ctf"));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(started->ended_unix_ns(), 0);

  happens(3000);
  const auto stopped = traces.stop(started->id());
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->ended(), "stopped by request");
  EXPECT_GE(stopped->ended_unix_ns(), stopped->started_unix_ns());
  EXPECT_EQ(stopped->stats().events(), counted_events());
  EXPECT_EQ(stopped->stats().dropped_events(), 0u);
  EXPECT_EQ(stopped->stats().bytes(), std::filesystem::file_size(path));
  const auto replay = replay_trace(path);
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_TRUE(replay->summary.complete());
  EXPECT_EQ(replay->summary.events(), counted_events());
  EXPECT_EQ(traces.list().traces_size(), 1) << "ended ones stay in the list";
}

TEST_F(TraceServiceTest, TheFileIsCurrentWhileItIsWritten) {
  TraceService traces(service_, {.directory = dir_.path()});
  const auto started = traces.start(options());
  ASSERT_TRUE(started.ok());
  happens(500);
  EXPECT_TRUE(testing::eventually([&] {
    const auto replay = replay_trace(started->files(0));
    return replay.ok() && replay->summary.complete() &&
           replay->summary.events() == counted_events();
  }));
  EXPECT_EQ(info(traces, started->id()).ended(), "");
}

TEST_F(TraceServiceTest, RotatesAndKeepsTheNewest) {
  TraceService traces(service_, {.directory = dir_.path()});
  pb::TraceOptions rotating = options();
  rotating.set_max_bytes(RecordingOptions::kMinFileBytes);
  rotating.set_max_files(2);
  const auto started = traces.start(rotating);
  ASSERT_TRUE(started.ok()) << started.status();
  const std::string first = started->files(0);
  std::string stem = first.substr(0, first.size() - 4);
  const std::string third = stem + ".2.ctf";
  ASSERT_TRUE(testing::eventually([&] {
    happens(2000);
    return std::filesystem::exists(third);
  }));
  const auto stopped = traces.stop(started->id());
  ASSERT_TRUE(stopped.ok());
  ASSERT_EQ(stopped->files_size(), 2);
  EXPECT_FALSE(std::filesystem::exists(first));
  for (const std::string& path : stopped->files()) {
    EXPECT_LE(std::filesystem::file_size(path), RecordingOptions::kMinFileBytes);
    const auto replay = replay_trace(path);
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_TRUE(replay->summary.complete()) << replay->summary.losses();
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
    files += entry.exists();
  EXPECT_EQ(files, 2);
}

TEST_F(TraceServiceTest, EndsWithTheTarget) {
  TraceService traces(service_, {.directory = dir_.path()});
  const auto started = traces.start(options());
  ASSERT_TRUE(started.ok());
  happens(100);
  auto ended = target();
  ended->info.state = TargetState::kExited;
  ended->info.message = "the program ended";
  service_.set({ended});
  log_->close();
  ASSERT_TRUE(
      testing::eventually([&] { return info(traces, started->id()).ended_unix_ns() != 0; }));
  EXPECT_EQ(info(traces, started->id()).ended(), "pid 4242: the program ended");
  EXPECT_EQ(info(traces, started->id()).stats().events(), counted_events());
  EXPECT_EQ(traces.start(options()).status().code(), absl::StatusCode::kFailedPrecondition)
      << "nothing will happen any more";
}

TEST_F(TraceServiceTest, EndsAtTheTimeLimit) {
  TraceService traces(service_, {.directory = dir_.path()});
  pb::TraceOptions limited = options();
  limited.set_max_seconds(0.05);
  const auto started = traces.start(limited);
  ASSERT_TRUE(started.ok());
  happens(100);
  ASSERT_TRUE(
      testing::eventually([&] { return info(traces, started->id()).ended_unix_ns() != 0; }));
  EXPECT_EQ(info(traces, started->id()).ended(), "the time limit of 50.0 ms is reached");
}

TEST_F(TraceServiceTest, CompletesAllFilesAtTheEnd) {
  std::vector<std::string> paths;
  {
    TraceService traces(service_, {.directory = dir_.path()});
    for (int i = 0; i < 3; ++i) {
      const auto started = traces.start(options());
      ASSERT_TRUE(started.ok());
      paths.push_back(started->files(0));
    }
    happens(1000);
  }
  for (const std::string& path : paths) {
    const auto replay = replay_trace(path);
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_EQ(replay->summary.events(), counted_events());
    EXPECT_TRUE(replay->summary.complete());
  }
}

TEST_F(TraceServiceTest, CountsWhatItWasTooSlowFor) {
  TraceService traces(service_, {});
  log_ = std::make_shared<EventLog>(EventLogOptions{.max_events = 100});
  log_->begin(0);
  service_.set({target()});
  pb::RecordResponse last;
  std::string file;
  bool first = true;
  const auto send = [&](const pb::RecordResponse& message) {
    file += message.data();
    last = message;
    if (std::exchange(first, false)) {  // while the caller is busy with the first message
      happens(500);
      happens(500);
      log_->close();
    }
    return true;
  };
  const auto stream = traces.record(options());
  ASSERT_TRUE(stream.ok());
  while ((*stream)->step(send)) {
  }
  EXPECT_GT(last.stats().dropped_events(), 0u);
  EXPECT_EQ(
      last.stats().dropped_events() + last.stats().events() + last.stats().unfollowed_events(),
      counted_events());
  const auto replay = replay_trace(dir_.write("a.ctf", file));
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_TRUE(replay->summary.complete()) << "what was dropped is no damage";
}

// Includes events until then, with a number that only its caller has.
TEST_F(TraceServiceTest, ARecordingThatIsEndedHasWhatCameLast) {
  TraceService traces(service_, {});
  std::string file;
  pb::RecordResponse last;
  const auto send = [&](const pb::RecordResponse& message) {
    file += message.data();
    last = message;
    return true;
  };
  const auto stream = traces.record(options());
  ASSERT_TRUE(stream.ok()) << stream.status();
  happens(100);
  while (file.empty() && (*stream)->step(send)) {
  }
  EXPECT_EQ(traces.end_recording(last.recording() + 1).code(), absl::StatusCode::kNotFound);
  happens(1000);
  ASSERT_TRUE(traces.end_recording(last.recording()).ok());
  while ((*stream)->step(send)) {
  }
  EXPECT_EQ(last.ended(), "stopped by request");
  EXPECT_EQ(last.stats().events() + last.stats().unfollowed_events(), counted_events());
  const auto replay = replay_trace(dir_.write("a.ctf", file));
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->summary.events(), last.stats().events());
}

TEST_F(TraceServiceTest, RefusesInOneLine) {
  TraceService nowhere(service_, {});
  EXPECT_THAT(std::string(nowhere.start(options()).status().message()),
              HasSubstr("--trace.directory"));
  TraceService traces(service_, {.directory = dir_.path(), .max_running = 2});
  EXPECT_EQ(traces.start(options(1)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(traces.start(options(4300)).status().code(), absl::StatusCode::kFailedPrecondition)
      << "has no events";
  EXPECT_EQ(traces.stop(77).status().code(), absl::StatusCode::kNotFound);
  pb::TraceOptions of_c = options();
  of_c.set_heap(pb::BLOCK_HEAP_C);
  const absl::Status not_followed = traces.record(of_c).status();
  EXPECT_EQ(not_followed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(not_followed.message()), HasSubstr("--c-heap"));
  ASSERT_TRUE(traces.start(options()).ok());
  const auto second = traces.start(options());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(traces.start(options()).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(traces.stop(second->id()).ok());
  EXPECT_TRUE(traces.start(options()).ok()) << "there is room again";
  pb::TraceOptions files = options();
  files.set_max_files(2);
  EXPECT_EQ(traces.record(files).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TraceServiceTest, RefusesAProgramThatIsNotMeant) {
  TraceService traces(service_, {.directory = dir_.path()});
  pb::TraceOptions asked = options();
  asked.set_process_start_ticks(testing::kStartTicks + 1);
  for (const absl::Status& status : {traces.start(asked).status(), traces.record(asked).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("pid 4242 is now another program"));
  }
  asked.set_process_start_ticks(testing::kStartTicks);
  EXPECT_TRUE(traces.start(asked).ok());
  EXPECT_TRUE(traces.record(asked).ok());
}

TEST_F(TraceServiceTest, ForgetsTheOldestEndedOnes) {
  TraceService traces(service_, {.directory = dir_.path(), .max_ended = 2});
  for (int i = 0; i < 4; ++i) {
    const auto started = traces.start(options());
    ASSERT_TRUE(started.ok());
    ASSERT_TRUE(traces.stop(started->id()).ok());
  }
  ASSERT_TRUE(traces.start(options()).ok());
  std::vector<std::uint64_t> ids;
  const pb::ListTracesResponse list = traces.list();
  for (const pb::TraceInfo& trace : list.traces()) ids.push_back(trace.id());
  EXPECT_THAT(ids, ElementsAre(3, 4, 5));
}

TEST_F(TraceServiceTest, DoesNotWriteOverFilesOrThroughLinks) {
  const std::string elsewhere = dir_.write("elsewhere", "precious");
  TraceFiles files(dir_.path(), "name", 0, kUsualTraceBytes);
  dir_.link("name.ctf", elsewhere);
  const absl::Status refused = files.begin_file();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("name.ctf: File exists"));
  EXPECT_EQ(read_file(elsewhere), "precious");
  EXPECT_TRUE(make_trace_directory(dir_.path("new")).ok());
  EXPECT_FALSE(make_trace_directory(dir_.path("none/new")).ok());
  EXPECT_FALSE(make_trace_directory(elsewhere).ok());
  EXPECT_TRUE(make_trace_directory(dir_.path()).ok());
}

// Any writer's files count; other files do not.
TEST_F(TraceServiceTest, AFullDirectoryTakesNoMore) {
  dir_.write("old.ctf", std::string(3000, 'x'));
  dir_.write("other", std::string(9000, 'x'));
  EXPECT_EQ(check_trace_room(dir_.path(), 3001), absl::OkStatus());
  const absl::Status full = check_trace_room(dir_.path(), 3000);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("--trace.max-bytes allows 2.93 KiB"));
  TraceService traces(service_, {.directory = dir_.path(), .max_bytes = 3000});
  EXPECT_EQ(traces.start(options()).status().code(), absl::StatusCode::kResourceExhausted);
  std::filesystem::remove(dir_.path("old.ctf"));
  EXPECT_TRUE(traces.start(options()).ok());
}

TEST_F(TraceServiceTest, ATraceEndsWhereItsDirectoryIsFull) {
  constexpr std::uint64_t kMax = 3 * TraceFiles::kQuotaStep;
  TraceFiles files(dir_.path(), "name", 0, kMax);
  ASSERT_EQ(files.begin_file(), absl::OkStatus());
  const std::vector<std::byte> packet(100'000);
  absl::Status written;
  std::uint64_t bytes = 0;
  while (written.ok() && bytes < 2 * kMax) {
    written = files.write(packet);
    if (written.ok()) bytes += packet.size();
  }
  EXPECT_EQ(written.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GE(bytes, kMax - packet.size());
  EXPECT_LE(bytes, kMax + TraceFiles::kQuotaStep);
  EXPECT_EQ(std::filesystem::file_size(dir_.path("name.ctf")), bytes);
}

TEST_F(TraceServiceTest, ATraceOfCsMemoryHasItsRateBeforeItHasAnyEvent) {
  auto followed = target();
  followed->info.asked.native_heap_interval = 4096;
  service_.set({followed});
  TraceService traces(service_, {.directory = dir_.path()});
  pb::TraceOptions of_c = options();
  of_c.set_heap(pb::BLOCK_HEAP_C);
  const auto started = traces.start(of_c);
  ASSERT_TRUE(started.ok()) << started.status();
  happens(100);  // of other heaps
  const auto ended = traces.stop(started->id());
  EXPECT_EQ(ended->stats().events(), 0u);
  const auto replay = replay_trace(ended->files(0));
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_EQ(replay->snapshot->info.sampling_rate, 8.0 / 4096);
  EXPECT_TRUE(replay->snapshot->info.external_is_c);
}

TEST(TraceOptions, NonsenseIsRefused) {
  const auto code = [](auto change) {
    pb::TraceOptions options;
    options.set_pid(7);
    change(options);
    return recorder_options(options).status().code();
  };
  EXPECT_EQ(code([](auto&) {}), absl::StatusCode::kOk);
  EXPECT_EQ(code([](auto& o) { o.set_version(3); }), absl::StatusCode::kOk);
  EXPECT_EQ(code([](auto& o) { o.set_heap(pb::BLOCK_HEAP_C); }), absl::StatusCode::kOk);
  constexpr auto kBad = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](auto& o) { o.set_pid(0); }), kBad);
  EXPECT_EQ(code([](auto& o) { o.set_heap(pb::BLOCK_HEAP_MAJOR); }), kBad);
  EXPECT_EQ(code([](auto& o) { o.set_version(1); }), kBad);
  EXPECT_EQ(code([](auto& o) { o.set_version(4); }), kBad);
  EXPECT_EQ(code([](auto& o) { o.set_max_seconds(-1); }), kBad);
  EXPECT_EQ(code([](auto& o) { o.set_max_seconds(std::nan("")); }), kBad);
  EXPECT_EQ(code([](auto& o) { o.set_max_bytes(1000); }), kBad);
  EXPECT_EQ(code([](auto& o) { o.set_max_files(1'000'000); }), kBad);
}

// POST /api/v1/trace without a server around it.
class HttpTraceTest : public TraceServiceTest {
 protected:
  HttpTraceTest() { add_api_routes(queries_, traces_, stop_, routes_); }

  HttpResponse get(std::multimap<std::string, std::string> query) {
    HttpRequest request{"/api/v1/trace", std::move(query)};
    request.headers = {{"host", "localhost:9871"}, {"x-memprofd-control", "1"}};
    return routes_.at("POST /api/v1/trace")(request);
  }

  QueryService queries_{service_};
  TraceService traces_{service_, {.max_running = 1}};
  StopSignal stop_;
  HttpRoutes routes_;
};

TEST_F(HttpTraceTest, AnswersAFile) {
  const HttpResponse response = get({{"pid", "4242"}, {"seconds", "600"}, {"version", "3"}});
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.content_type, "application/octet-stream");
  EXPECT_EQ(response.file_name, "memprofd-4242.ctf");
  happens(20'000);
  log_->close();
  std::string file;
  for (std::string piece; !(piece = response.pieces().value()).empty();) file += piece;
  const auto replay = replay_trace(dir_.write("a.ctf", file));
  ASSERT_TRUE(replay.ok()) << replay.status();
  EXPECT_TRUE(replay->summary.complete());
  EXPECT_EQ(replay->summary.events(), counted_events());
}

TEST_F(HttpTraceTest, EndsInTimeAndMakesRoom) {
  {
    const HttpResponse response = get({{"pid", "4242"}, {"seconds", "0.05"}});
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(get({{"pid", "4242"}, {"seconds", "1"}}).status, 429) << "one at a time here";
    while (!response.pieces()->empty()) {
    }
  }
  const HttpResponse left = get({{"pid", "4242"}, {"seconds", "600"}});
  EXPECT_EQ(left.status, 200) << left.body;
}

TEST_F(HttpTraceTest, EndsWithTheDaemon) {
  const HttpResponse response = get({{"pid", "4242"}, {"seconds", "600"}});
  ASSERT_EQ(response.status, 200);
  traces_.stop();
  std::string file;
  for (std::string piece; !(piece = response.pieces().value()).empty();) file += piece;
  EXPECT_TRUE(replay_trace(dir_.write("a.ctf", file))->summary.complete());
}

TEST_F(HttpTraceTest, RefusesInOneLine) {
  const std::pair<std::multimap<std::string, std::string>, int> cases[] = {
      {{{"pid", "4242"}}, 400},
      {{{"pid", "4242"}, {"seconds", "0"}}, 400},
      {{{"pid", "4242"}, {"seconds", "601"}}, 400},
      {{{"pid", "4242"}, {"seconds", "nan"}}, 400},
      {{{"seconds", "1"}}, 400},
      {{{"pid", "4242"}, {"seconds", "1"}, {"max_files", "2"}}, 400},
      {{{"pid", "4242"}, {"seconds", "1"}, {"colour", "2"}}, 400},
      {{{"pid", "1"}, {"seconds", "1"}}, 404},
      {{{"pid", "4300"}, {"seconds", "1"}}, 409}};
  for (const auto& [query, status] : cases) {
    const HttpResponse response = get(query);
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.body.find('\n'), response.body.size() - 1) << response.body;
  }
}

// Over a real connection.
class GrpcTraceTest : public TraceServiceTest {
 protected:
  GrpcTraceTest() {
    auto server = GrpcServer::start({socket_, ""}, service_, traces_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = pb::Trace::NewStub(
        grpc::CreateChannel("unix:" + socket_, grpc::InsecureChannelCredentials()));
  }
  pb::RecordRequest request() const {
    pb::RecordRequest request;
    *request.mutable_options() = options();
    return request;
  }

  const std::string socket_ = dir_.path("memprofd.sock");
  TraceService traces_{service_, {.directory = dir_.path()}};
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<pb::Trace::Stub> stub_;
  grpc::ClientContext context_;
};

TEST_F(GrpcTraceTest, StreamsAFileThatIsCompleteAfterEveryMessage) {
  const auto stream = stub_->Record(&context_, request());
  pb::RecordResponse message;
  std::string file;
  ASSERT_TRUE(stream->Read(&message));  // recording has begun
  file += message.data();
  happens(20'000);
  log_->close();
  int messages = 0;
  do {
    const auto replay = replay_trace(dir_.write("part.ctf", file));
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_TRUE(replay->summary.complete()) << replay->summary.losses();
    ASSERT_TRUE(message.ended().empty());
    ++messages;
    ASSERT_TRUE(stream->Read(&message));
    file += message.data();
  } while (message.ended().empty());
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_GT(messages, 1);
  EXPECT_EQ(message.stats().events(), counted_events());
  EXPECT_EQ(message.stats().bytes(), file.size());
  EXPECT_EQ(replay_trace(dir_.write("all.ctf", file))->summary.events(), counted_events());
}

TEST_F(GrpcTraceTest, ACancelledRecordingLeavesTheLog) {
  const auto stream = stub_->Record(&context_, request());
  pb::RecordResponse message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_FALSE(log_->stop()) << "somebody reads";
  context_.TryCancel();
  EXPECT_TRUE(testing::eventually([&] { return log_->stop(); }));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GrpcTraceTest, EndsWithTheServer) {
  const auto stream = stub_->Record(&context_, request());
  pb::RecordResponse message;
  ASSERT_TRUE(stream->Read(&message));
  std::thread stopper([this] { server_.reset(); });
  while (stream->Read(&message)) {
  }
  stopper.join();
  EXPECT_EQ(message.ended(), "memprofd stops");
  stream->Finish();  // its status depends on how long the server waits for its streams
}

TEST_F(GrpcTraceTest, StartsListsAndStops) {
  pb::StartTraceRequest start;
  *start.mutable_options() = options();
  pb::StartTraceResponse started;
  ASSERT_TRUE(stub_->StartTrace(&context_, start, &started).ok());
  pb::ListTracesResponse list;
  grpc::ClientContext list_context;
  ASSERT_TRUE(stub_->ListTraces(&list_context, {}, &list).ok());
  ASSERT_EQ(list.traces_size(), 1);
  EXPECT_EQ(list.traces(0).files(0), started.trace().files(0));
  pb::StopTraceRequest stop;
  stop.set_id(started.trace().id());
  pb::StopTraceResponse stopped;
  grpc::ClientContext stop_context;
  ASSERT_TRUE(stub_->StopTrace(&stop_context, stop, &stopped).ok());
  EXPECT_EQ(stopped.trace().ended(), "stopped by request");
  grpc::ClientContext again_context;
  stop.set_id(99);
  const grpc::Status status = stub_->StopTrace(&again_context, stop, &stopped);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace memprofd
