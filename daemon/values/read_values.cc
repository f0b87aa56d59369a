// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/read_values.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "daemon/query/frame_filter.h"
#include "daemon/snapshot/block_header.h"
#include "daemon/util/status_macros.h"
#include "daemon/values/batch_reader.h"
#include "daemon/values/read_published.h"
#include "daemon/values/reading_order.h"
#include "daemon/values/tag_reader.h"
#include "daemon/values/value_graph.h"
#include "daemon/values/value_watch.h"

namespace memprofd {
namespace {

using Clock = std::chrono::steady_clock;
using What = ValuesRequest::What;

// Maximum number of times that the collector may overtake a value.
constexpr int kBatchTries = 50;
// Tries for the memory of a tag before only half as much of it is examined.
constexpr int kTriesOfSize = 3;
constexpr std::chrono::microseconds kPauseBetween{200};
// Maximum and first number of values between two readings of the heap's clock.
constexpr std::size_t kLargestBatch = 512;
constexpr std::size_t kFirstBatch = 128;
constexpr std::uint64_t kMaxSlots = 1u << 20;

std::string name_of(const std::string& module, std::uint32_t field) {
  return fmt::format("{}[{}]", module.empty() ? "(unknown)" : module, field);
}

class BatchReading {
 public:
  // found: the layout, with a clock.
  BatchReading(ValueProgram& program, const ValueProgram::Layout& found,
               const ValuesRequest& request, ValuesAnswer answer)
      : program_(program),
        found_(found),
        request_(request),
        fields_(request.what == What::kKept ? program.kept().all() : request.fields),
        names_([&program](std::uint64_t code) { return program.function_at(code); }),
        nodes_left_(request.graph_nodes),
        batch_(request.graph_nodes > 0 ? 1 : kFirstBatch),
        answer_(std::move(answer)) {}

  absl::StatusOr<ValuesAnswer> run(const std::function<bool()>& wanted) {
    ASSIGN_OR_RETURN(std::vector<ValueSlot> slots, choose());
    RETURN_IF_ERROR(begin_with_mappings());
    if (request_.watch != nullptr) slots = leave_changed(slots);
    const auto until = Clock::now() + request_.patience;
    for (std::size_t done = 0; done < slots.size();) {
      if (!wanted()) return absl::CancelledError("no one waits for the values any longer");
      if (Clock::now() > until) {
        answer_.not_reached = slots.size() - done;
        break;
      }
      const auto batch = std::span(slots).subspan(done, std::min(batch_, slots.size() - done));
      ASSIGN_OR_RETURN(const bool is_done, try_batch(batch));
      if (is_done) done += batch.size();
    }
    if (request_.watch != nullptr) finish_watch();
    if (finds_modules()) sort_by_place();
    return std::move(answer_);
  }

 private:
  void sort_by_place() {
    std::ranges::sort(answer_.values, {},
                      [](const NamedValue& value) { return std::pair(value.place, value.field); });
  }

  // True if the pattern selects module values; otherwise the request lists them, or wants none.
  bool finds_modules() const {
    return request_.what == What::kAll || request_.what == What::kModules;
  }

  absl::StatusOr<std::vector<ValueSlot>> choose() {
    std::vector<ValueSlot> slots;
    if (finds_modules() && request_.types != nullptr) {
      source_names_ = program_.names(found_, *request_.types);
      answer_.other_builds = source_names_->other_builds();
      answer_.unverified = source_names_->unverified();
    }
    for (std::uint32_t i = 0; i < answer_.report.all.size(); ++i) {
      const PublishedValue& one = answer_.report.all[i];
      if (!one.is_on_heap()) continue;
      const std::uint64_t address = root_address(program_, one);
      KnownValue* known = request_.watch != nullptr ? request_.watch->known_at(address) : nullptr;
      slots.push_back({ValueSlot::kPublished, i, address, known});
    }
    if (request_.watch != nullptr && request_.watch->has_slots()) {
      const std::vector<ValueSlot>& known = request_.watch->slots();
      slots.insert(slots.end(), known.begin(), known.end());
      answer_.fields = known.size() + request_.watch->left_out();
      return slots;
    }
    ASSIGN_OR_RETURN(const std::vector<ValueSlot> fields, choose_fields());
    answer_.fields = fields.size();
    if (request_.watch != nullptr) request_.watch->set_slots(fields);
    const auto& chosen = request_.watch != nullptr ? request_.watch->slots() : fields;
    slots.insert(slots.end(), chosen.begin(), chosen.end());
    return slots;
  }

  absl::StatusOr<std::vector<ValueSlot>> choose_fields() {
    ASSIGN_OR_RETURN(const Patterns wanted, Patterns::compile("name", {request_.pattern}));
    std::vector<ValueSlot> slots;
    if (!finds_modules()) {
      if (request_.what != What::kPublished) add_fields(fields_, slots);
      return slots;
    }
    for (const std::size_t i : reading_order(found_.modules)) {
      const ModuleBlocks::Module& module = found_.modules[i];
      for (std::uint64_t field = 0; field < module.count && slots.size() < kMaxSlots; ++field) {
        const auto index = static_cast<std::uint32_t>(field);
        if (wanted.empty() || wanted.any_in(name_of(module.name, index)) ||
            has_name(wanted, source_names_->of(i, field).name)) {
          slots.push_back({i, index, module.fields + field * kWordBytes});
        }
      }
    }
    return slots;
  }

  static bool has_name(const Patterns& wanted, const std::string& name) {
    return !name.empty() && wanted.any_in(name);
  }

  void add_fields(const std::vector<ModuleField>& fields, std::vector<ValueSlot>& slots) const {
    for (const ModuleField& one : fields) {
      if (one.module >= found_.modules.size()) continue;
      const ModuleBlocks::Module& module = found_.modules[one.module];
      if (one.field < module.count) {
        slots.push_back({one.module, one.field, module.fields + one.field * kWordBytes});
      }
    }
  }

  absl::Status begin_with_mappings() {
    const auto* known = request_.watch != nullptr ? request_.watch->mappings() : nullptr;
    if (known == nullptr) return read_mappings().status();
    reader_.set_mappings(*known);
    return absl::OkStatus();
  }

  // Returns true if the mappings have changed.
  absl::StatusOr<bool> read_mappings() {
    ASSIGN_OR_RETURN(std::vector<Mapping> mappings, program_.mappings());
    const bool is_new = reader_.set_mappings(mappings);
    if (request_.watch != nullptr) request_.watch->set_mappings(std::move(mappings));
    return is_new;
  }

  // Returns the slots that have to be read; the values of the others are known.
  std::vector<ValueSlot> leave_changed(const std::vector<ValueSlot>& slots) {
    std::vector<ValueSlot> changed;
    const std::vector<bool> is_changed = reader_.find_changed(slots);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (is_changed[i]) {
        changed.push_back(slots[i]);
      } else if (slots[i].module == ValueSlot::kPublished) {
        set_value(answer_.report.all[slots[i].field], *slots[i].known->value);
      }
    }
    return changed;
  }

  // Values for which there was no room are dropped from the watch.
  void finish_watch() {
    ValueWatch& watch = *request_.watch;
    if (answer_.left_out > 0) watch.set_slots(watch.slots());
    answer_.left_out = watch.left_out();
    watch.leave_changed(answer_.report);
  }

  // Returns true if the batch is finished: read in one piece, or abandoned. Batches shrink until
  // the collector and the program leave time for them.
  absl::StatusOr<bool> try_batch(std::span<const ValueSlot> batch) {
    ASSIGN_OR_RETURN(BatchReads reads, read_batch(batch));
    WhyUnread why = WhyUnread::kMoving;
    if (reads.before.still(reads.after)) {
      why = WhyUnread::kChanging;
      ASSIGN_OR_RETURN(const bool is_good, is_whole(reads.read) ? had_all(batch.size()) : false);
      if (is_good) {
        accept(batch, std::move(reads.read));
        batch_ = std::min(batch_ * 2, request_.graph_nodes > 0 ? 1 : kLargestBatch);
        tries_ = 0;
        return true;
      }
    }
    ++answer_.repeated;
    batch_ = std::max<std::size_t>(batch_ / 2, 1);
    if (batch.size() > 1 || ++tries_ < kBatchTries) {
      std::this_thread::sleep_for(kPauseBetween);
      return false;
    }
    tries_ = 0;
    accept(batch, {ReadValue{.value = {.kind = ValueKind::kUnread, .why = why}}});
    return true;
  }

  // Two readings of a batch, and the heap's clock before and after.
  struct BatchReads {
    HeapClock::Moment before, after;
    std::vector<ReadValue> read;
  };

  absl::StatusOr<BatchReads> read_batch(std::span<const ValueSlot> batch) {
    if (std::optional<BatchReads> peeked = peek_at(batch)) return *std::move(peeked);
    BatchReads reads;
    ASSIGN_OR_RETURN(reads.before, found_.clock->now(program_.memory()));
    if (reads.before.moving) return reads;
    reads.read = reader_.read_twice(batch, answer_.report.all, bounds());
    ASSIGN_OR_RETURN(reads.after, found_.clock->now(program_.memory()));
    return reads;
  }

  std::optional<BatchReads> peek_at(std::span<const ValueSlot> batch) {
    HeapClock::Words before, after;
    std::vector<MemoryPiece> first, last;
    found_.clock->add_pieces(before, first);
    found_.clock->add_pieces(after, last);
    auto read = reader_.peek_twice(batch, answer_.report.all, bounds(), first, last);
    if (!read) return std::nullopt;
    return BatchReads{found_.clock->moment_of(before), found_.clock->moment_of(after),
                      *std::move(read)};
  }

  // Returns false if a page was missing that can be read: memory that the program has just got, or
  // a page that is there if fewer values are read at once.
  absl::StatusOr<bool> had_all(std::size_t values) {
    if ((reader_.full() && values > 1) || reader_.was_late()) return false;
    if (!reader_.missed()) return true;
    ASSIGN_OR_RETURN(const bool is_new, read_mappings());
    return !is_new;
  }

  // At the last try parts of two moments are accepted, as long as they fit together.
  bool is_whole(std::vector<ReadValue>& read) const {
    const bool is_last_try = read.size() == 1 && tries_ + 1 == kBatchTries;
    if (is_last_try) read[0].value.is_changing = read[0].differs;
    return std::none_of(read.begin(), read.end(), [&](const ReadValue& one) {
      return one.is_torn || (one.differs && !is_last_try);
    });
  }

  // Halves the examined blocks of a tag after failed tries, as the collector leaves too little
  // time.
  BatchReader::Bounds bounds() const {
    return {.graph_nodes = nodes_left_,
            .blocks_of_tag = kMaxMarkedBlocks >> (tries_ / kTriesOfSize)};
  }

  void accept(std::span<const ValueSlot> batch, std::vector<ReadValue> read) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (const auto& graph = read[i].value.graph) nodes_left_ -= graph->nodes.size();
      if (batch[i].known != nullptr) keep(batch[i], read[i]);
      if (batch[i].module == ValueSlot::kPublished) {
        set_value(answer_.report.all[batch[i].field], std::move(read[i].value));
      } else {
        accept_field(batch[i], std::move(read[i]));
      }
    }
  }

  // Remembers only values that are known to be whole.
  static void keep(const ValueSlot& slot, ReadValue& read) {
    const bool is_sure = (read.is_constant || read.value.kind != ValueKind::kUnread) &&
                         !read.value.is_changing && !read.value.is_more_memory;
    slot.known->value = nullptr;
    slot.known->read_set = is_sure ? std::move(read.read_set) : ReadSet();
    if (!is_sure || slot.module != ValueSlot::kPublished) return;
    slot.known->value = std::make_unique<const Value>(read.value);
  }

  void accept_field(const ValueSlot& slot, ReadValue read) {
    const bool is_constant = read.is_constant || read.value.kind == ValueKind::kFunction;
    if (is_constant && !request_.with_constants) return;
    const bool has_room = request_.watch != nullptr
                              ? request_.watch->may_report(slot, request_.limit)
                              : answer_.values.size() < request_.limit;
    if (!has_room) {
      ++answer_.left_out;
      return;
    }
    answer_.values.push_back({.place = slot.module,
                              .module = found_.modules[slot.module].name,
                              .field = slot.field,
                              .source = source_of(slot),
                              .value = std::move(read.value)});
  }

  FieldName source_of(const ValueSlot& slot) const {
    const auto as = std::find_if(fields_.begin(), fields_.end(), [&](const ModuleField& one) {
      return one.module == slot.module && one.field == slot.field;
    });
    return as != fields_.end() ? FieldName{.name = as->name}
                               : source_names_->of(slot.module, slot.field);
  }

  ValueProgram& program_;
  const ValueProgram::Layout& found_;
  const ValuesRequest& request_;
  const std::vector<ModuleField> fields_;  // requested fields, if the request lists them
  const FunctionNames names_;
  std::shared_ptr<const FieldNames> source_names_ = std::make_shared<const FieldNames>();
  BatchReader reader_{program_.memory(),
                      names_,
                      {.with_constants = request_.with_constants,
                       .with_contents = request_.with_contents,
                       .with_graphs = request_.graph_nodes > 0,
                       .image = found_.image}};
  std::size_t nodes_left_;  // left for graphs
  std::size_t batch_;       // number of values; 1 if graphs are requested, which may be large
  int tries_ = 0;           // tries of a batch of one value
  ValuesAnswer answer_;
};

}  // namespace

std::string NamedValue::name() const { return name_of(module, field); }

absl::StatusOr<ValuesAnswer> read_values(ValueProgram& program, const ValuesRequest& request,
                                         const std::function<bool()>& wanted) {
  ValuesAnswer answer;
  answer.publishes = program.registry() != 0;
  for (const ModuleField& one : program.kept().all()) answer.kept.push_back(one.name);
  const bool has_none =
      request.what == What::kPublished || (request.what == What::kKept && answer.kept.empty());
  if (has_none && program.registry() == 0) return answer;
  ASSIGN_OR_RETURN(const auto found, program.found());
  if (!found->clock.ok() && program.registry() == 0) return found->clock.status();
  if (request.watch != nullptr) request.watch->begin(found);
  absl::StatusOr<Publication> report =
      request.what == What::kModules ? Publication()
                                     : read_published_values(program, *found, request, wanted);
  if (absl::IsFailedPrecondition(report.status())) {
    answer.why_no_report = std::string(report.status().message());
  } else {
    RETURN_IF_ERROR(report.status());
    answer.report = *std::move(report);
  }
  if (found->clock.ok())
    return BatchReading(program, *found, request, std::move(answer)).run(wanted);
  for (PublishedValue& one : answer.report.all) {
    if (one.is_on_heap()) one.value.why = WhyUnread::kNoClock;
  }
  if (request.watch != nullptr) request.watch->leave_changed(answer.report);
  return answer;
}

}  // namespace memprofd
