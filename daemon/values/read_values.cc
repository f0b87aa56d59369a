// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/read_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "daemon/query/frame_filter.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/status_macros.h"
#include "daemon/values/page_cache.h"
#include "daemon/values/read_reported.h"
#include "daemon/values/tag_reader.h"
#include "daemon/values/value_graph.h"
#include "daemon/values/value_reader.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;

// How many times the collector may overtake a value.
constexpr int kTries = 50;
// And what a tag marks, before half as much of it is looked at.
constexpr int kTriesOfSize = 3;
constexpr std::chrono::microseconds kPauseBetween{200};
// Read between two looks at the heap's clock, so that they are few.
constexpr std::size_t kLargestBatch = 256;
constexpr std::size_t kFirstBatch = 32;
constexpr std::uint64_t kMostFields = 1u << 20;

constexpr std::size_t kReported = static_cast<std::size_t>(-1);

// A word of a module, or of the registry.
struct Slot {
  std::size_t module = 0;  // or kReported: field is the place in Report::all
  std::uint32_t field = 0;
  std::uint64_t address = 0;
};

std::string name_of(const std::string& module, std::uint32_t field) {
  return fmt::format("{}[{}]", module.empty() ? "(unknown)" : module, field);
}

class Reading {
 public:
  // found: with a clock.
  Reading(ValueProgram& program, const ValueProgram::Found& found, const ValuesRequest& request,
          ValuesAnswer answer)
      : program_(program),
        found_(found),
        request_(request),
        names_([&program](std::uint64_t code) { return program.function_at(code); }),
        nodes_left_(request.graph_nodes),
        batch_(request.graph_nodes > 0 ? 1 : kFirstBatch),
        answer_(std::move(answer)) {}

  absl::StatusOr<ValuesAnswer> run(const std::function<bool()>& wanted) {
    ASSIGN_OR_RETURN(const std::vector<Slot> slots, choose());
    RETURN_IF_ERROR(look_at_mappings().status());
    const auto until = Clock::now() + request_.patience;
    for (std::size_t done = 0; done < slots.size();) {
      if (!wanted()) return absl::CancelledError("nobody waits for the values any more");
      if (Clock::now() > until) {
        answer_.not_reached = slots.size() - done;
        break;
      }
      const auto batch = std::span(slots).subspan(done, std::min(batch_, slots.size() - done));
      ASSIGN_OR_RETURN(const bool is_done, try_batch(batch));
      if (is_done) done += batch.size();
    }
    return std::move(answer_);
  }

 private:
  // A word of a module, and what it means if it is asked for.
  struct Read {
    bool is_constant = false;
    bool is_torn = false;  // its parts do not fit together
    bool differs = false;  // when it is read again at once
    Value value;
  };

  absl::StatusOr<std::vector<Slot>> choose() {
    ASSIGN_OR_RETURN(const Patterns wanted, Patterns::compile("name", {request_.pattern}));
    std::vector<Slot> slots;
    for (std::uint32_t i = 0; i < answer_.report.all.size(); ++i) {
      const Reported& one = answer_.report.all[i];
      if (one.is_on_heap()) slots.push_back({kReported, i, root_address(program_, one)});
    }
    const std::size_t reported = slots.size();
    for (std::size_t i = 0; i < found_.modules.size() && !request_.only_reported; ++i) {
      const ModuleBlocks::Module& module = found_.modules[i];
      for (std::uint64_t field = 0; field < module.count && slots.size() < kMostFields; ++field) {
        const auto index = static_cast<std::uint32_t>(field);
        if (wanted.empty() || wanted.any_in(name_of(module.name, index))) {
          slots.push_back({i, index, module.fields + field * kWordBytes});
        }
      }
    }
    answer_.fields = slots.size() - reported;
    return slots;
  }

  // Whether what is mapped is not what it was.
  absl::StatusOr<bool> look_at_mappings() {
    ASSIGN_OR_RETURN(const std::vector<Mapping> mappings, program_.mappings());
    return pages_.set_mappings(mappings, found_.image);
  }

  // Whether the batch is over: read in one piece, or given up. Batches shrink until the collector
  // and the program leave time for them.
  absl::StatusOr<bool> try_batch(std::span<const Slot> batch) {
    ASSIGN_OR_RETURN(const HeapClock::Moment before, found_.clock->now(program_.memory()));
    WhyUnread why = WhyUnread::kMoving;
    if (!before.moving) {
      std::vector<Read> read = read_twice(batch);
      ASSIGN_OR_RETURN(const HeapClock::Moment after, found_.clock->now(program_.memory()));
      if (before.still(after)) {
        why = WhyUnread::kChanging;
        ASSIGN_OR_RETURN(const bool is_good, is_whole(read) ? had_all(batch.size()) : false);
        if (is_good) {
          accept(batch, std::move(read));
          batch_ = std::min(batch_ * 2, request_.graph_nodes > 0 ? 1 : kLargestBatch);
          tries_ = 0;
          return true;
        }
      }
    }
    ++answer_.repeated;
    batch_ = std::max<std::size_t>(batch_ / 2, 1);
    if (batch.size() > 1 || ++tries_ < kTries) {
      std::this_thread::sleep_for(kPauseBetween);
      return false;
    }
    tries_ = 0;
    accept(batch, {Read{.value = {.kind = ValueKind::kUnread, .why = why}}});
    return true;
  }

  // Whether no page was missing that could be had: memory that the program has just got, or when
  // fewer values are read at once.
  absl::StatusOr<bool> had_all(std::size_t values) {
    if (pages_.full() && values > 1) return false;
    if (!pages_.missed()) return true;
    ASSIGN_OR_RETURN(const bool is_new, look_at_mappings());
    return !is_new;
  }

  // At the last try parts of two moments have to do, as long as they fit together.
  bool is_whole(std::vector<Read>& read) const {
    const bool is_last_try = read.size() == 1 && tries_ + 1 == kTries;
    if (is_last_try) read[0].value.is_changing = read[0].differs;
    return std::none_of(read.begin(), read.end(), [&](const Read& one) {
      return one.is_torn || (one.differs && !is_last_try);
    });
  }

  // What is of several words and differs has been changed in between.
  std::vector<Read> read_twice(std::span<const Slot> batch) {
    pages_.forget();
    std::vector<Read> first;
    for (const Slot& slot : batch) first.push_back(read_slot(slot));
    pages_.forget();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Read second = read_slot(batch[i]);
      second.is_torn |= first[i].is_torn;
      // A tag counts words, each of which was there: the program may go on marking.
      const bool is_apart = batch.size() > 1 && is_pointed_to(second.value);
      second.differs =
          (is_compound(second.value) || is_apart) && !second.value.same_as(first[i].value);
      first[i] = std::move(second);
    }
    return first;
  }

  // Whether it is of more words than one that the program may change.
  static bool is_compound(const Value& value) {
    if (value.graph != nullptr && value.graph->nodes.size() > 1) return true;
    if (value.kind == ValueKind::kReference) return is_compound(value.fields.front());
    return !value.fields.empty() || value.kind == ValueKind::kTable;
  }

  // Whether a pointer leads to it. A page that was read for another value, before the pointer was,
  // may not have it yet; of a value that is read alone no page was.
  static bool is_pointed_to(const Value& value) {
    const bool is_held = value.kind == ValueKind::kReference;
    return (is_held ? value.fields.front() : value).kind != ValueKind::kInteger;
  }

  Read read_slot(const Slot& slot) const {
    std::uint64_t word = 0;
    if (!pages_.read_value(slot.address, word).ok()) {
      return {.value = {.kind = ValueKind::kUnread, .why = WhyUnread::kNotMapped}};
    }
    if (slot.module == kReported) return read_reported(answer_.report.all[slot.field], word);
    // Integers are set once, and what lies in the program's image is made by the compiler.
    const bool is_constant = word % 2 != 0 || found_.image.contains(word);
    if (is_constant && !request_.with_constants) return {.is_constant = true};
    ValueReader reader(pages_, names_, request_.with_contents);
    Value value = read_value(reader, word);
    return {.is_constant = is_constant, .is_torn = reader.is_torn(), .value = std::move(value)};
  }

  Read read_reported(const Reported& one, std::uint64_t word) const {
    if (one.kind == Reported::Kind::kTag) {
      return {.value = read_tag(pages_, found_.image, word, one.no_mark, blocks_of_tag())};
    }
    const bool is_string = one.type == MEMPROF_VALUE_STRING;  // published on purpose
    ValueReader reader(pages_, names_, request_.with_contents || is_string);
    Value value = read_value(reader, word);
    return {.is_torn = reader.is_torn(), .value = std::move(value)};
  }

  // The less the collector leaves time for, the more it is the number of marks alone.
  std::size_t blocks_of_tag() const { return kMaxMarkedBlocks >> (tries_ / kTriesOfSize); }

  Value read_value(ValueReader& reader, std::uint64_t word) const {
    Value value = reader.read(word);
    if (request_.graph_nodes > 0) {
      value.graph = std::make_shared<const ValueGraph>(read_graph(reader, word, nodes_left_));
    }
    return value;
  }

  void accept(std::span<const Slot> batch, std::vector<Read> read) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (const auto& graph = read[i].value.graph) nodes_left_ -= graph->nodes.size();
      if (batch[i].module == kReported) {
        set_value(answer_.report.all[batch[i].field], std::move(read[i].value));
        continue;
      }
      const bool is_constant = read[i].is_constant || read[i].value.kind == ValueKind::kFunction;
      if (is_constant && !request_.with_constants) continue;
      if (answer_.values.size() >= request_.limit) {
        ++answer_.left_out;
        continue;
      }
      answer_.values.push_back(
          {found_.modules[batch[i].module].name, batch[i].field, std::move(read[i].value)});
    }
  }

  ValueProgram& program_;
  const ValueProgram::Found& found_;
  const ValuesRequest& request_;
  const FunctionNames names_;
  PageCache pages_{program_.memory()};
  std::size_t nodes_left_;  // of graphs
  std::size_t batch_;       // values; one by one where graphs are asked for, which may be large
  int tries_ = 0;           // of a batch of one
  ValuesAnswer answer_;
};

}  // namespace

std::string NamedValue::name() const { return name_of(module, field); }

absl::StatusOr<ValuesAnswer> read_values(ValueProgram& program, const ValuesRequest& request,
                                         const std::function<bool()>& wanted) {
  if (request.only_reported && program.registry() == 0) return ValuesAnswer();
  ASSIGN_OR_RETURN(const auto found, program.found());
  if (!found->clock.ok() && program.registry() == 0) return found->clock.status();
  ValuesAnswer answer;
  answer.says_something = program.registry() != 0;
  absl::StatusOr<Report> report = read_reported(program, *found, request, wanted);
  if (absl::IsFailedPrecondition(report.status())) {
    answer.why_no_report = std::string(report.status().message());
  } else {
    RETURN_IF_ERROR(report.status());
    answer.report = *std::move(report);
  }
  if (found->clock.ok()) return Reading(program, *found, request, std::move(answer)).run(wanted);
  for (Reported& one : answer.report.all) {
    if (one.is_on_heap()) one.value.why = WhyUnread::kNoClock;
  }
  return answer;
}

}  // namespace memprofd
