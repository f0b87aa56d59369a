// SPDX-License-Identifier: Apache-2.0
#include "daemon/values/value_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace memprofd {
namespace {

// True if the visible part is the same. The times of a timer change only with its counts, or while
// it runs.
bool is_same(const PublishedValue& a, const PublishedValue& b) {
  return a.hits == b.hits && a.starts == b.starts && a.stops == b.stops && b.running() == 0 &&
         a.changed_ns == b.changed_ns && a.is_torn == b.is_torn && a.control == b.control &&
         a.period_ms == b.period_ms && a.kind == b.kind && a.name == b.name &&
         a.labels == b.labels && a.unit == b.unit && a.value.same_as(b.value);
}

}  // namespace

void ValueWatch::begin(std::shared_ptr<const ValueProgram::Layout> found) {
  if (found_ == found) return;
  ValueWatch fresh;
  fresh.program_ = std::move(program_);
  fresh.program_at_ = program_at_;
  *this = std::move(fresh);
  found_ = std::move(found);
}

std::shared_ptr<ValueProgram> ValueWatch::program() const {
  return Clock::now() - program_at_ < kLayoutKept ? program_ : nullptr;
}

absl::Status ValueWatch::set_program(std::shared_ptr<ValueProgram> program) {
  if (program_ != nullptr && !program_->is_same_program(*program)) {
    return absl::NotFoundError(absl::StrCat(
        "pid ", program->pid(), " is now another program than the one that was watched"));
  }
  program_ = std::move(program);
  program_at_ = Clock::now();
  return absl::OkStatus();
}

void ValueWatch::set_slots(std::vector<ValueSlot> slots) {
  std::erase_if(slots, [this](const ValueSlot& slot) { return left_out_.contains(slot.address); });
  slots_ = std::move(slots);
  known_fields_ = std::vector<KnownValue>(slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].known = &known_fields_[i];
  has_slots_ = true;
}

bool ValueWatch::may_report(const ValueSlot& slot, std::size_t limit) {
  if (fields_reported_.contains(slot.address)) return true;
  const bool has_room = fields_reported_.size() < limit;
  (has_room ? fields_reported_ : left_out_).insert(slot.address);
  return has_room;
}

KnownValue* ValueWatch::known_at(std::uint64_t address) {
  auto& known = known_reported_[address];
  if (known == nullptr) known = std::make_unique<KnownValue>();
  return known.get();
}

const std::vector<Mapping>* ValueWatch::mappings() const {
  const bool is_new = Clock::now() - mapped_at_ < kLayoutKept;
  return is_new && !mappings_.empty() ? &mappings_ : nullptr;
}

void ValueWatch::set_mappings(std::vector<Mapping> mappings) {
  mappings_ = std::move(mappings);
  mapped_at_ = Clock::now();
}

void ValueWatch::leave_changed(Publication& report) {
  std::erase_if(report.all, [this](const PublishedValue& one) {
    const auto [before, is_new] = reported_.try_emplace(one.slot, one);
    if (is_new) return false;
    if (is_same(before->second, one)) return true;
    before->second = one;
    return false;
  });
  std::erase_if(report.lines,
                [this](const PublishedLine& line) { return line.number < next_line_; });
  if (!report.lines.empty()) next_line_ = report.lines.back().number + 1;
}

}  // namespace memprofd
