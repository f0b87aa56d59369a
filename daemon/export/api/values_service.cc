// SPDX-License-Identifier: Apache-2.0
#include "daemon/export/api/values_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "daemon/discover/process_owner.h"
#include "daemon/export/api/query_convert.h"
#include "daemon/export/api/request_checks.h"
#include "daemon/history/snapshot.h"
#include "daemon/util/clock.h"
#include "daemon/util/status_macros.h"
#include "daemon/util/utf8.h"
#include "daemon/values/value_graph.h"

namespace memprofd {
namespace {

namespace pb = ::memprof::v1;

constexpr std::uint32_t kUsualLimit = 1000;
constexpr std::uint32_t kMaxLimit = 100'000;
constexpr double kUsualTimeout = 10;  // seconds
constexpr double kUsualPeriod = 1, kShortestPeriod = 0.01, kLongestPeriod = 3600;

pb::ValueKind to_proto(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInteger:
      return pb::VALUE_KIND_INTEGER;
    case ValueKind::kFloat:
      return pb::VALUE_KIND_FLOAT;
    case ValueKind::kString:
      return pb::VALUE_KIND_STRING;
    case ValueKind::kFloatArray:
      return pb::VALUE_KIND_FLOAT_ARRAY;
    case ValueKind::kFunction:
      return pb::VALUE_KIND_FUNCTION;
    case ValueKind::kLazy:
      return pb::VALUE_KIND_LAZY;
    case ValueKind::kCustom:
      return pb::VALUE_KIND_CUSTOM;
    case ValueKind::kAbstract:
      return pb::VALUE_KIND_ABSTRACT;
    case ValueKind::kObject:
      return pb::VALUE_KIND_OBJECT;
    case ValueKind::kReference:
      return pb::VALUE_KIND_REFERENCE;
    case ValueKind::kList:
      return pb::VALUE_KIND_LIST;
    case ValueKind::kTable:
      return pb::VALUE_KIND_TABLE;
    case ValueKind::kQueue:
      return pb::VALUE_KIND_QUEUE;
    case ValueKind::kTree:
      return pb::VALUE_KIND_TREE;
    case ValueKind::kBlock:
      return pb::VALUE_KIND_BLOCK;
    case ValueKind::kTag:
      return pb::VALUE_KIND_TAG;
    case ValueKind::kUnread:
      return pb::VALUE_KIND_UNREAD;
  }
  return pb::VALUE_KIND_UNSPECIFIED;
}

const char* text_of(WhyUnread why) {
  switch (why) {
    case WhyUnread::kNone:
      return "";
    case WhyUnread::kMoving:
      return "the collector was faster at each try";
    case WhyUnread::kChanging:
      return "the program changed it at each try";
    case WhyUnread::kNotMapped:
      return "there is no block";
    case WhyUnread::kNotYet:
      return "not computed yet; the program does it after its next minor collection";
    case WhyUnread::kRaised:
      return "the function has raised an exception";
    case WhyUnread::kNoClock:
      return "the runtime is not understood";
    case WhyUnread::kOff:
      return "it is switched off";
    case WhyUnread::kDeep:
      return "";  // the same as for values beyond the first fields
  }
  return "";
}

void set_range(const Durations::Range& range, pb::DurationRange& out) {
  out.set_low_seconds(range.low_seconds);
  out.set_high_seconds(range.high_seconds);
}

void add_durations(const Durations& durations, pb::Durations& out) {
  out.set_count(durations.count());
  out.set_seconds(durations.seconds());
  for (const Durations::Bucket& bucket : durations.buckets()) {
    pb::DurationBucket& to = *out.add_buckets();
    set_range(bucket.range, *to.mutable_range());
    to.set_count(bucket.count);
  }
  if (const auto half = durations.quantile(0.5)) set_range(*half, *out.mutable_p50());
  if (const auto most = durations.quantile(0.9)) set_range(*most, *out.mutable_p90());
  if (const auto rest = durations.quantile(0.99)) set_range(*rest, *out.mutable_p99());
}

void put_value(const Value& value, pb::Value& out);

void add_domain(const PublishedValue::PerDomainCounts& counts, pb::DomainShare& out) {
  out.set_is_others(counts.lane == MEMPROF_VALUES_SHARED_LANE);
  if (!out.is_others()) out.set_domain(counts.lane);
  out.set_hits(counts.hits);
  out.set_starts(counts.starts);
  out.set_stops(counts.stops);
  out.set_seconds(counts.seconds);
  out.set_max_seconds(counts.max_seconds);
}

pb::Reported to_proto(const PublishedValue& one, std::uint64_t now_ns) {
  pb::Reported out;
  out.set_kind(static_cast<pb::ReportedKind>(static_cast<int>(one.kind) + 1));
  out.set_name(valid_utf8(one.name));
  put_labels(one.labels, *out.mutable_labels());
  out.set_unit(valid_utf8(one.unit));
  out.set_hits(one.hits);
  out.set_starts(one.starts);
  out.set_stops(one.stops);
  out.set_seconds(one.seconds);
  out.set_max_seconds(one.max_seconds);
  if (one.durations != nullptr) add_durations(*one.durations, *out.mutable_durations());
  for (const PublishedValue::PerDomainCounts& counts : one.lanes)
    add_domain(counts, *out.add_domains());
  if (one.has_value()) put_value(one.value, *out.mutable_value());
  out.set_is_bool(one.type == MEMPROF_VALUE_BOOL);
  if (const auto age = one.age_seconds(now_ns)) out.set_age_seconds(*age);
  out.set_is_changing(one.is_torn);
  out.set_is_off(one.is_off());
  out.set_period_ms(one.period_ms);
  return out;
}

void add_report(const Publication& report, pb::ListValuesResponse& out) {
  const std::uint64_t now_ns = tick_now().ns;
  for (const PublishedValue& one : report.all) *out.add_reported() = to_proto(one, now_ns);
  for (const PublishedLine& line : report.lines) {
    pb::ReportedLine& to = *out.add_lines();
    to.set_number(line.number);
    to.set_seconds_ago(line.seconds_ago);
    to.set_text(valid_utf8(line.text));
    to.set_is_cut(line.is_cut);
    to.set_phase_begins(line.kind == MEMPROF_LOG_PHASE_ENTER);
    to.set_is_pause(line.kind == MEMPROF_LOG_PAUSE);
    to.set_phase_ends(line.kind == MEMPROF_LOG_PHASE_LEAVE);
  }
  out.set_refused_names(report.refused);
  out.set_lost_lines(report.lost_lines);
  out.set_malformed_names(report.malformed);
  out.set_waiting(report.waiting);
}

void add_graph(const ValueGraph& graph, pb::Value& out) {
  for (const GraphNode& node : graph.nodes) {
    pb::GraphNode& to = *out.add_graph();
    put_value(node.value, *to.mutable_value());
    to.set_references(node.references);
    for (const GraphField& field : node.fields) {
      pb::GraphField& out_field = *to.add_fields();
      out_field.set_node(field.node);
      if (field.node == 0) put_value(field.value, *out_field.mutable_value());
    }
  }
  out.set_graph_is_cut(graph.is_cut);
}

void put_value(const Value& value, pb::Value& out) {
  out.set_kind(to_proto(value.kind));
  out.set_integer(value.integer);
  out.set_number(value.number);
  out.set_size(value.size);
  out.set_size_is_least(value.is_longer);
  out.set_tag(value.tag);
  if (!value.text.empty()) out.set_text(valid_utf8(value.text));
  out.set_is_cut(value.is_cut);
  out.set_buckets(value.buckets);
  out.set_chains_counted(value.chains_counted);
  out.set_empty_buckets(value.empty_buckets);
  out.set_longest_chain(value.longest_chain);
  out.mutable_chains()->Add(value.chains.begin(), value.chains.end());
  for (const Value& field : value.fields) put_value(field, *out.add_fields());
  out.set_bytes(value.bytes);
  out.set_bytes_is_least(value.is_more_memory);
  out.set_is_changing(value.is_changing);
  if (value.why != WhyUnread::kNone) out.set_why_unread(text_of(value.why));
  if (value.graph != nullptr) add_graph(*value.graph, out);
}

}  // namespace

void put_labels(const ValueLabels& labels,
                google::protobuf::RepeatedPtrField<pb::ReportedLabel>& out) {
  for (const auto& [key, value] : labels) {
    pb::ReportedLabel& label = *out.Add();
    label.set_key(valid_utf8(key));
    label.set_value(valid_utf8(value));
  }
}

pb::Value to_proto(const Value& value) {
  pb::Value out;
  put_value(value, out);
  return out;
}

namespace {

absl::StatusOr<ValuesRequest> checked(const pb::ListValuesRequest& request) {
  RETURN_IF_ERROR(check_pid(request.pid()));
  if (request.limit() > kMaxLimit) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad limit ", request.limit(), ": it is at most ", kMaxLimit));
  }
  if (request.graph_nodes() > kMaxGraphNodes) {
    return absl::InvalidArgumentError(absl::StrCat("bad number of nodes of a graph ",
                                                   request.graph_nodes(), ": it is at most ",
                                                   kMaxGraphNodes));
  }
  using What = ValuesRequest::What;
  return ValuesRequest{.what = request.only_reported() ? What::kPublished : What::kAll,
                       .pattern = request.pattern(),
                       .with_constants = request.with_constants(),
                       .with_contents = request.with_contents(),
                       .graph_nodes = request.graph_nodes(),
                       .limit = request.limit() == 0 ? kUsualLimit : request.limit(),
                       .by_domain = request.by_domain()};
}

pb::ListValuesResponse to_proto(const ValuesAnswer& answer) {
  pb::ListValuesResponse response;
  add_report(answer.report, response);
  response.set_why_nothing_reported(answer.why_no_report);
  for (const NamedValue& named : answer.values) {
    pb::NamedValue& out = *response.add_values();
    out.set_module(valid_utf8(named.module));
    out.set_field(named.field);
    out.set_name(valid_utf8(named.name()));
    if (!named.source.name.empty()) out.set_source_name(named.source.name);
    if (!named.source.type.empty()) out.set_source_type(named.source.type);
    put_value(named.value, *out.mutable_value());
  }
  for (const std::string& name : answer.kept) response.add_kept(valid_utf8(name));
  response.set_fields(answer.fields);
  response.set_left_out(answer.left_out);
  response.set_repeated_reads(answer.repeated);
  response.set_not_reached(answer.not_reached);
  for (const std::string& unit : answer.other_builds) response.add_other_builds(unit);
  response.set_unverified_names(answer.unverified);
  return response;
}

}  // namespace

absl::StatusOr<pb::ListValuesResponse> answer_values(
    const pb::ListValuesRequest& request,
    const std::function<absl::StatusOr<ValuesAnswer>(const ValuesRequest&)>& read) {
  ASSIGN_OR_RETURN(const ValuesRequest asked, checked(request));
  ASSIGN_OR_RETURN(const ValuesAnswer answer, read(asked));
  return to_proto(answer);
}

absl::StatusOr<pb::ListValuesResponse> ValuesService::list_values(
    const pb::ListValuesRequest& request, const RequestedProcess& process,
    const std::function<bool()>& wanted) {
  return answer_values(request, [&](const ValuesRequest& asked) {
    return service_.read_values(process, asked, wanted);
  });
}

absl::StatusOr<ValuesStream> ValuesStream::open(ProfilerService& service,
                                                const pb::WatchValuesRequest& request,
                                                const RequestedProcess& process) {
  ASSIGN_OR_RETURN(ValuesRequest asked, checked(request.values()));
  if (asked.graph_nodes > 0) {
    return absl::InvalidArgumentError("graphs cannot be watched: list the values with them");
  }
  const double seconds = request.period_seconds() == 0 ? kUsualPeriod : request.period_seconds();
  if (!(seconds >= kShortestPeriod && seconds <= kLongestPeriod)) {
    return absl::InvalidArgumentError(absl::StrCat("bad period of ", request.period_seconds(),
                                                   " s: it is from ", kShortestPeriod, " to ",
                                                   kLongestPeriod, " s"));
  }
  return ValuesStream(
      service, process, std::move(asked),
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds)));
}

absl::StatusOr<pb::WatchValuesResponse> ValuesStream::next(const std::function<bool()>& wanted) {
  const bool has_begun = std::exchange(asked_.watch, watch_.get()) != nullptr;
  const auto answer = service_->read_values(process_, asked_, wanted);
  const absl::Status& status = answer.status();
  if (has_begun && (absl::IsFailedPrecondition(status) || absl::IsPermissionDenied(status))) {
    return absl::NotFoundError(
        absl::StrCat("pid ", process_.pid,
                     " is now another program than the one that was watched, or has changed its "
                     "user"));
  }
  RETURN_IF_ERROR(status);
  pb::WatchValuesResponse response;
  *response.mutable_changed() = to_proto(*answer);
  response.set_unix_ns(static_cast<std::int64_t>(realtime_ns()));
  return response;
}

absl::Status watch_values(ProfilerService& service, const pb::WatchValuesRequest& request,
                          const StreamCall<pb::WatchValuesResponse>& call) {
  using std::chrono::steady_clock;
  ASSIGN_OR_RETURN(ValuesStream stream, ValuesStream::open(service, request, call.process));
  call.done("");
  for (auto due = steady_clock::now(); call.wait(due);) {
    ASSIGN_OR_RETURN(const pb::WatchValuesResponse message, stream.next(call.waits));
    if (!call.send(message)) break;
    due = std::max(due + stream.period(), steady_clock::now());
  }
  return absl::OkStatus();
}

absl::StatusOr<pb::ResumeResponse> ValuesService::resume(const pb::ResumeRequest& request,
                                                         const RequestedProcess& process) {
  RETURN_IF_ERROR(check_pid(request.pid()));
  pb::ResumeResponse response;
  ASSIGN_OR_RETURN(const std::uint32_t waiting, service_.resume(process));
  response.set_waiting(waiting);
  return response;
}

absl::StatusOr<pb::AdjustResponse> ValuesService::adjust(const pb::AdjustRequest& request,
                                                         const RequestedProcess& process) {
  RETURN_IF_ERROR(check_pid(request.pid()));
  PublishedControl control{.pattern = request.pattern()};
  for (const pb::ReportedLabel& label : request.labels()) {
    control.labels.emplace_back(label.key(), label.value());
  }
  if (request.has_enabled()) control.enabled = request.enabled();
  if (request.has_period_ms()) control.period_ms = request.period_ms();
  pb::AdjustResponse response;
  ASSIGN_OR_RETURN(const std::uint32_t count, service_.adjust(process, control));
  response.set_count(count);
  return response;
}

absl::StatusOr<pb::KeepValuesResponse> ValuesService::keep(const pb::KeepValuesRequest& request,
                                                           const RequestedProcess& process) {
  RETURN_IF_ERROR(check_pid(request.pid()));
  ASSIGN_OR_RETURN(
      const std::vector<std::string> names,
      service_.keep_values(process, {.pattern = request.pattern(), .forget = request.forget()}));
  pb::KeepValuesResponse response;
  for (const std::string& name : names) response.add_names(valid_utf8(name));
  return response;
}

absl::StatusOr<pb::AskResponse> ValuesService::ask(const pb::AskRequest& request,
                                                   const RequestedProcess& process,
                                                   const std::function<bool()>& wanted) {
  RETURN_IF_ERROR(check_pid(request.pid()));
  const double seconds = request.timeout_seconds() == 0 ? kUsualTimeout : request.timeout_seconds();
  const std::chrono::duration<double> longest = kMaxRequestTimeout;
  if (!(seconds > 0 && seconds <= longest.count())) {
    return absl::InvalidArgumentError(absl::StrCat("bad timeout of ", request.timeout_seconds(),
                                                   " s: it is at most ", longest.count(), " s"));
  }
  const PublishedRequest asked{.name = request.name(),
                               .argument = request.argument(),
                               .timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::duration<double>(seconds))};
  ASSIGN_OR_RETURN(const RequestAnswer answer, service_.ask(process, asked, wanted));
  pb::AskResponse response;
  response.set_answer(valid_utf8(answer.text));
  response.set_is_cut(answer.is_cut);
  response.set_seconds(std::chrono::duration<double>(answer.took).count());
  return response;
}

absl::StatusOr<pb::GetValueHistoryResponse> ValuesService::history(
    const pb::GetValueHistoryRequest& request, const std::optional<ProcessUser>& user) {
  ASSIGN_OR_RETURN(const ProfileSnapshotPtr target, service_.snapshot(request.pid()));
  if (request.with_lines()) {
    const RequestedProcess process(request.pid(), target->info.program.start_time_ticks, user);
    RETURN_IF_ERROR(check_is_meant(process, process.start_time_ticks, target->info.owner));
    if (user && is_active(target->info.state)) {
      RETURN_IF_ERROR(check_is_meant_now(ProcFs(), process));
    }
  }
  return value_history(*target, request);
}

}  // namespace memprofd
